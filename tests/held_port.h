// A port for a server that comes later.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <system_error>

namespace tandem {

/// A port of 127.0.0.1 that nobody listens on, and that, while this lives, the system gives to nobody who asks for any:
/// tests run side by side. Who asks for this very one with SO_REUSEADDR, as a store does, gets it.
class HeldPort {
 public:
  HeldPort() : descriptor_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int yes = 1;
    setsockopt(descriptor_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    auto* const data = reinterpret_cast<sockaddr*>(&address);
    if (bind(descriptor_, data, length) != 0 || getsockname(descriptor_, data, &length) != 0) {
      throw std::system_error(errno, std::generic_category(), "no port of 127.0.0.1");
    }
    number_ = ntohs(address.sin_port);
  }
  ~HeldPort() { close(descriptor_); }
  HeldPort(const HeldPort&) = delete;
  HeldPort& operator=(const HeldPort&) = delete;

  std::uint16_t number() const { return number_; }
  std::string str() const { return std::to_string(number_); }

 private:
  int descriptor_;
  std::uint16_t number_ = 0;
};

}  // namespace tandem
