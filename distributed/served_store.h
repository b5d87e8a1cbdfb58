// The store that a rank serves for a run without a launcher.
#pragma once

#include <cstdint>
#include <string>

#include "tandem/distributed/stores/tcp_store_server.h"

namespace tandem::distributed {

class ServedStore {
 public:
  ServedStore(const std::string& host, std::uint16_t port) : server_(host, port) {}
  /// After a failure it ends when the others have read the cause, or had the time to.
  ~ServedStore();
  ServedStore(const ServedStore&) = delete;
  ServedStore& operator=(const ServedStore&) = delete;

  std::uint16_t port() const { return server_.port(); }
  /// For messages: "127.0.0.1:29500, [::1]:29500 (which no other machine reaches; ...)".
  std::string describe() const;
  void need_not_linger() { lingers_ = false; }

 private:
  TcpStoreServer server_;
  bool lingers_ = true;
};

}  // namespace tandem::distributed
