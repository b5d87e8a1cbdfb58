// A client of the TCP store (tcp_store_server.h).
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "tandem/distributed/store.h"

namespace tandem::distributed {

class TcpStore final : public Store {
 public:
  /// Connects, trying again until `timeout`, since the server, or its host's name, may come later than its clients;
  /// says on stderr, once, if that takes long. Throws TimeoutError if nobody answered in time, and Error at once if who
  /// answers is no store of Tandem, or this process cannot connect to anybody.
  TcpStore(const std::string& host, std::uint16_t port, Milliseconds timeout);
  ~TcpStore() override;

  void set(const std::string& key, const std::string& value) override;
  std::optional<std::string> get(const std::string& key, Milliseconds timeout) override;
  std::int64_t add(const std::string& key, std::int64_t amount) override;
  std::optional<std::string> compare_and_set(const std::string& key, const std::optional<std::string>& expected,
                                             const std::string& desired) override;
  bool remove(const std::string& key) override;
  bool set_at_end(const std::string& key, const std::optional<std::string>& value) override;
  std::shared_ptr<Store> connect_again() override;
  std::string str() const override;

  /// This side's own address as the server sees it: "127.0.0.1", "10.0.0.7", "fe80::1%eth0".
  std::string local_address() const;

 private:
  class Connection;

  std::string host_;
  std::uint16_t port_;
  std::mutex mutex_;
  std::unique_ptr<Connection> connection_;
};

}  // namespace tandem::distributed
