#include "tandem/distributed/network/socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "tandem/distributed/error.h"

namespace tandem::distributed {
namespace {

// Waiting for others would not help.
[[noreturn]] void fail_for_descriptors(int code) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  core::fail(
      "no connection can be opened: {}; this process may have {} files and connections: raise the limit "
      "(ulimit -n 4096)",
      system_reason(code), limit.rlim_cur);
}

Socket make_socket(int family) {
  Socket socket(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (socket.is_open()) return socket;
  const int code = errno;
  if (code == EMFILE || code == ENFILE) fail_for_descriptors(code);
  throw PeerError(system_reason(code));
}

void set_option(const Socket& socket, int level, int option) {
  const int on = 1;
  // Each is an improvement, without which sockets work, too.
  (void)setsockopt(socket.descriptor(), level, option, &on, sizeof(on));
}

bool wait_for(int descriptor, short events, const Deadline& deadline) {
  while (true) {
    pollfd entry{descriptor, events, 0};
    const int ready = poll(&entry, 1, static_cast<int>(deadline.nap().count()));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) throw PeerError(system_reason(errno));
    if (ready == 0 && deadline.has_passed()) return false;
  }
}

Address address_of(int descriptor, int (*ask)(int, sockaddr*, socklen_t*)) {
  Address address;
  address.length = sizeof(address.storage);
  if (ask(descriptor, reinterpret_cast<sockaddr*>(&address.storage), &address.length) != 0) {
    throw PeerError(system_reason(errno));
  }
  return address;
}

}  // namespace

std::string system_reason(int code) {
  std::string text = std::generic_category().message(code);
  if (text.size() > 1 && std::islower(static_cast<unsigned char>(text[1]))) {
    text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  }
  return text;
}

Socket::Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    close();
    descriptor_ = std::exchange(other.descriptor_, -1);
  }
  return *this;
}

void Socket::close() {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

Socket Socket::listen(const Address& address) {
  int code = 0;
  try {
    Socket socket = make_socket(address.family());
    // Otherwise the connections of a run that has just ended keep the port for a minute.
    set_option(socket, SOL_SOCKET, SO_REUSEADDR);
    if (address.family() == AF_INET6) set_option(socket, IPPROTO_IPV6, IPV6_V6ONLY);
    constexpr int kBacklog = 1024;
    if (bind(socket.descriptor(), address.data(), address.length) == 0 &&
        ::listen(socket.descriptor(), kBacklog) == 0) {
      return socket;
    }
    code = errno;
  } catch (const PeerError& error) {
    core::fail("cannot listen on {}: {}", address.str(), error.what());
  }
  if (code == EADDRINUSE) {
    throw PortInUseError(fmt::format("port {} on {} is in use: choose another port, or stop what listens there",
                                     address.port(), address.host()));
  }
  if (code == EADDRNOTAVAIL) {
    core::fail("cannot listen on {}: {} is no address of this machine", address.str(), address.host());
  }
  core::fail("cannot listen on {}: {}", address.str(), system_reason(code));
}

Socket Socket::connect(const Address& address, const Deadline& deadline) {
  Socket socket = make_socket(address.family());
  set_option(socket, IPPROTO_TCP, TCP_NODELAY);
  if (::connect(socket.descriptor(), address.data(), address.length) != 0) {
    if (errno != EINPROGRESS && errno != EINTR) throw PeerError(system_reason(errno));
    if (!socket.wait_to_send(deadline)) throw TimeoutError("no answer");
    int code = 0;
    socklen_t length = sizeof(code);
    if (getsockopt(socket.descriptor(), SOL_SOCKET, SO_ERROR, &code, &length) != 0) code = errno;
    if (code != 0) throw PeerError(system_reason(code));
  }
  // Where nobody listens on a port that the system also gives to clients, a socket may end up connected to itself.
  if (socket.local_address() == socket.peer_address()) throw PeerError(system_reason(ECONNREFUSED));
  return socket;
}

std::optional<Socket> Socket::accept(bool& is_out_of_descriptors) {
  Socket accepted(accept4(descriptor_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  is_out_of_descriptors =
      !accepted.is_open() && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM);
  if (!accepted.is_open()) return std::nullopt;
  set_option(accepted, IPPROTO_TCP, TCP_NODELAY);
  return accepted;
}

bool Socket::receive(std::string& bytes) {
  char buffer[64 << 10];
  const ssize_t count = recv(descriptor_, buffer, sizeof(buffer), 0);
  if (count > 0) {
    bytes.append(buffer, static_cast<std::size_t>(count));
    return true;
  }
  if (count == 0 || errno == ECONNRESET) throw PeerError("connection closed by the other side");
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return false;
  throw PeerError(fmt::format("connection lost ({})", system_reason(errno)));
}

std::size_t Socket::send(std::string_view bytes) {
  const ssize_t count = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (count >= 0) return static_cast<std::size_t>(count);
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return 0;
  if (errno == EPIPE || errno == ECONNRESET) throw PeerError("connection closed by the other side");
  throw PeerError(fmt::format("connection lost ({})", system_reason(errno)));
}

bool Socket::wait_to_receive(const Deadline& deadline) const { return wait_for(descriptor_, POLLIN, deadline); }
bool Socket::wait_to_send(const Deadline& deadline) const { return wait_for(descriptor_, POLLOUT, deadline); }

Address Socket::local_address() const { return address_of(descriptor_, getsockname); }
Address Socket::peer_address() const { return address_of(descriptor_, getpeername); }

}  // namespace tandem::distributed
