// Each rank opens one port for each other rank, publishes their addresses under its number, and connects. Gloo's own
// connectFullMesh does the same, but cannot be stopped and does not say who is missing.
#include "tandem/distributed/groups/gloo_mesh.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gloo/transport/address.h>
#include <gloo/transport/context.h>
#include <gloo/transport/device.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/tcp/device.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <future>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "tandem/core/start_thread.h"
#include "tandem/distributed/error.h"
#include "tandem/distributed/groups/no_sigpipe.h"
#include "tandem/distributed/groups/prompt_thread.h"

namespace tandem::distributed {

namespace {

// How often a wait looks whether it was closed meanwhile.
constexpr Milliseconds kLook{200};

// Equal where address and port are: of a link-local address, which another machine tells us, the scope is that
// machine's.
struct SocketAddress {
  sockaddr_storage storage{};

  bool operator==(const SocketAddress& other) const {
    if (storage.ss_family != other.storage.ss_family) return false;
    const auto* a = &storage;
    const auto* b = &other.storage;
    if (storage.ss_family == AF_INET) {
      const auto* first = reinterpret_cast<const sockaddr_in*>(a);
      const auto* second = reinterpret_cast<const sockaddr_in*>(b);
      return first->sin_port == second->sin_port && first->sin_addr.s_addr == second->sin_addr.s_addr;
    }
    const auto* first = reinterpret_cast<const sockaddr_in6*>(a);
    const auto* second = reinterpret_cast<const sockaddr_in6*>(b);
    return storage.ss_family == AF_INET6 && first->sin6_port == second->sin6_port &&
           std::memcmp(&first->sin6_addr, &second->sin6_addr, sizeof(in6_addr)) == 0;
  }
};

// Gloo's bytes begin with the address as the system has it.
SocketAddress parse(const std::string& bytes) {
  SocketAddress address;
  std::memcpy(&address.storage, bytes.data(), std::min(bytes.size(), sizeof(address.storage)));
  return address;
}

template <class GetName>
std::optional<SocketAddress> name_of(int descriptor, GetName get_name) {
  SocketAddress address;
  socklen_t length = sizeof(address.storage);
  if (get_name(descriptor, reinterpret_cast<sockaddr*>(&address.storage), &length) != 0) return std::nullopt;
  return address;
}

}  // namespace

std::string gloo_reason(const std::exception& error) {
  std::string reason = error.what();
  if (const auto end = reason.find("] "); !reason.empty() && reason.front() == '[' && end != std::string::npos)
    reason.erase(0, end + 2);
  std::replace(reason.begin(), reason.end(), '\n', ' ');
  return reason;
}

GlooMesh::GlooMesh(std::string group, GlooEndpoint endpoint)
    : group_(std::move(group)), endpoint_(std::move(endpoint)) {
  gloo::transport::tcp::attr attributes;
  attributes.hostname = endpoint_.address;
  const NoSigpipe no_sigpipe;  // Gloo's thread inherits it
  const PromptThread prompt;   // and this
  try {
    device_ = gloo::transport::tcp::CreateDevice(attributes);
  } catch (const std::exception& error) {
    core::fail("group {}: rank {} cannot listen on its address {}: {}", group_, endpoint_.rank, endpoint_.address,
               gloo_reason(error));
  }
  for (auto& descriptors : sockets_) descriptors.assign(static_cast<std::size_t>(endpoint_.size), -1);
  for (auto& context : contexts_) {
    context = device_->createContext(endpoint_.rank, endpoint_.size);
    context->setTimeout(Milliseconds(0));  // none: Gloo's would hold for all waits ever after
    for (int peer = 0; peer < endpoint_.size; ++peer)
      if (peer != endpoint_.rank) context->createPair(peer);
  }
}

void GlooMesh::connect(Milliseconds timeout) {
  std::promise<void> is_done;
  const auto watch_deadline = [&, done = is_done.get_future()] {
    if (done.wait_for(timeout + kLook) == std::future_status::timeout)
      close(fmt::format("rank {} waited {} s for connections", endpoint_.rank, in_seconds(timeout)));
  };
  std::thread timer =
      core::start_thread("that watches a deadline", [&] { return std::thread(std::cref(watch_deadline)); });
  const auto finish = [&] {
    is_done.set_value();
    timer.join();
  };
  try {
    connect_all(timeout);
  } catch (...) {
    finish();
    throw;
  }
  finish();
  const std::lock_guard lock(mutex_);
  throw_if_closed();
  is_connected_ = true;
}

void GlooMesh::connect_all(Milliseconds timeout) {
  const Deadline deadline(timeout);
  const std::string published = publish_addresses();
  for (int peer = 0; peer < endpoint_.size; ++peer) {
    if (peer == endpoint_.rank) continue;
    const std::string addresses = wait_for_addresses(peer, deadline);
    if (addresses.empty()) throw_missing(timeout);
    const std::size_t length = address_length(), expected = length * static_cast<std::size_t>(endpoint_.size) * 2;
    if (addresses.size() != expected)
      core::fail("group {}: rank {} published {} bytes of addresses, expected {}", group_, peer, addresses.size(),
                 expected);
    std::size_t from = length * static_cast<std::size_t>(endpoint_.rank) * 2,
                own = length * static_cast<std::size_t>(peer) * 2;
    try {
      for (std::size_t index = 0; index < contexts_.size(); ++index) {
        const std::string port = addresses.substr(from, length);
        contexts_[index]->getPair(peer)->connect(std::vector<char>(port.begin(), port.end()));
        const int descriptor = find_socket(peer, *contexts_[index], published.substr(own, length), port);
        const std::lock_guard lock(mutex_);
        sockets_[index][static_cast<std::size_t>(peer)] = descriptor;
        from += length;
        own += length;
      }
    } catch (const PeerError&) {
      throw;
    } catch (const std::exception& error) {
      throw_if_closed();
      throw PeerError(fmt::format("group {}: rank {} could not connect to rank {}: {}", group_, endpoint_.rank, peer,
                                  gloo_reason(error)));
    }
    throw_if_closed();
  }
}

std::size_t GlooMesh::address_length() { return address_of(endpoint_.rank == 0 ? 1 : 0, *contexts_[0]).size(); }

std::string GlooMesh::address_of(int peer, gloo::transport::Context& context) const {
  const std::vector<char> bytes = context.getPair(peer)->address().bytes();
  return {bytes.begin(), bytes.end()};
}

// Two addresses of equal length for each rank, in the order of contexts.
std::string GlooMesh::publish_addresses() {
  std::string addresses;
  for (int peer = 0; peer < endpoint_.size; ++peer) {
    for (auto& context : contexts_) {
      if (peer == endpoint_.rank) {
        addresses.append(address_length(), '\0');
      } else {
        addresses += address_of(peer, *context);
      }
    }
  }
  endpoint_.store->set(key(endpoint_.rank), addresses);
  return addresses;
}

std::string GlooMesh::wait_for_addresses(int peer, const Deadline& deadline) {
  while (true) {
    const Milliseconds nap = deadline.nap();
    if (auto value = endpoint_.store->get(key(peer), std::min(nap, kLook))) return *value;
    throw_if_closed();
    if (nap == Milliseconds(0)) return "";
  }
}

void GlooMesh::throw_missing(Milliseconds timeout) {
  std::string missing;
  for (int peer = 0; peer < endpoint_.size; ++peer) {
    if (peer == endpoint_.rank || endpoint_.store->get(key(peer), Milliseconds(0))) continue;
    missing += (missing.empty() ? "" : ", ") + std::to_string(peer);
  }
  throw TimeoutError(fmt::format("group {}: after {} s rank {} still waits for rank {} to come", group_,
                                 in_seconds(timeout), endpoint_.rank, missing));
}

void GlooMesh::throw_if_closed() {
  if (is_closed_) throw PeerError(fmt::format("group {}: {}", group_, cause_));
}

// Gloo keeps its descriptors to itself; a pair's own address and its peer's tell which one it is. The one who connects
// may share its port with other connections, the one who listens does not.
int GlooMesh::find_socket(int peer, gloo::transport::Context& context, const std::string& own_port,
                          const std::string& peer_port) {
  const SocketAddress local = parse(address_of(peer, context));
  const auto is_it = [&](int descriptor) {
    const auto name = name_of(descriptor, getsockname), other = name_of(descriptor, getpeername);
    return name && other && *name == local && (local == parse(own_port) || *other == parse(peer_port));
  };
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int descriptor = std::atoi(entry.path().filename().c_str());
    if (!is_it(descriptor)) continue;
    const int own = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    if (own < 0) continue;
    if (!is_it(own)) {  // closed and used again by another thread meanwhile
      ::close(own);
      continue;
    }
    return own;
  }
  throw_if_closed();
  throw PeerError(
      fmt::format("group {}: rank {} lost the connection to rank {} at once", group_, endpoint_.rank, peer));
}

GlooMesh::~GlooMesh() {
  for (auto& context : contexts_) context.reset();
  for (const auto& descriptors : sockets_)
    for (const int descriptor : descriptors)
      if (descriptor >= 0) ::close(descriptor);
}

void GlooMesh::close(const std::string& cause) {
  const std::lock_guard lock(mutex_);
  if (is_closed_) return;
  cause_ = cause;
  is_closed_ = true;
  shut_down(SHUT_RDWR);
  if (is_connected_) return;
  for (int peer = 0; peer < endpoint_.size; ++peer) {
    if (peer == endpoint_.rank) continue;
    for (auto& context : contexts_)
      if (const auto& pair = context->getPair(peer)) pair->close();
  }
}

void GlooMesh::interrupt() {
  const std::lock_guard lock(mutex_);
  shut_down(SHUT_RD);
}

void GlooMesh::shut_down(int how) {
  for (const auto& descriptors : sockets_)
    for (const int descriptor : descriptors)
      if (descriptor >= 0) shutdown(descriptor, how);
}

void GlooMesh::widen(int peer) {
  const int bytes = 512 * 1024;  // the system doubles it; more left the cache and was slower over loopback
  setsockopt(sockets_[sending_index(peer)][static_cast<std::size_t>(peer)], SOL_SOCKET, SO_SNDBUF, &bytes,
             sizeof(bytes));
}

std::string GlooMesh::key(int rank) const { return fmt::format("groups/{}/{}", group_, rank); }

}  // namespace tandem::distributed
