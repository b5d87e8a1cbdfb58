// The serving side of the TCP store: one thread, any number of clients. It survives strangers: who says no hello within
// 5 s or sends garbage is let go, and of those who have said none yet 64 stay.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tandem/distributed/network/address.h"

namespace tandem::distributed {

class TcpStoreServer {
 public:
  /// Listens on `host` (a name or an address, IPv4 or IPv6; what a name stands for: listen_addresses in
  /// network/address.h) and `port`, 0: one that is free. Throws PortInUseError (network/socket.h) or Error where that
  /// cannot be: "port 29500 on 127.0.0.1 is in use: ...".
  TcpStoreServer(const std::string& host, std::uint16_t port);
  /// Closes all connections.
  ~TcpStoreServer();
  TcpStoreServer(const TcpStoreServer&) = delete;
  TcpStoreServer& operator=(const TcpStoreServer&) = delete;

  std::uint16_t port() const;
  /// What it listens on.
  std::vector<Address> addresses() const;
  /// Clients that have introduced themselves and are still connected.
  int clients() const;

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace tandem::distributed
