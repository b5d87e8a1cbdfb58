// One connection of the TCP store's server: what has come, what has to go, and what it waits for.
//
// It works at one request at a time and is not read while it does, so that neither who sends without end nor who never
// reads takes more memory than one request and one reply.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "tandem/distributed/network/deadline.h"
#include "tandem/distributed/network/socket.h"
#include "tandem/distributed/stores/store_protocol.h"

namespace tandem::distributed {

class StoreSession {
 public:
  /// Who connects has so long to say hello.
  static constexpr Milliseconds kHelloTime{5000};

  explicit StoreSession(Socket connection) : socket_(std::move(connection)) {}

  int descriptor() const { return socket_.descriptor(); }
  bool is_introduced() const { return is_introduced_; }
  /// What to ask poll for.
  short events() const;
  /// When it is over: the wait for a hello, or for a key.
  std::optional<Deadline> deadline() const;

  // Each throws Error where the connection has to end: it is lost, or the other side sends what no client sends.
  /// Sends and receives what can be without waiting, after poll said so.
  void transfer(short events);
  /// Whether a valid hello has come, for the first time; then to be welcomed.
  bool introduces_itself();
  void welcome();
  /// None while it is busy with one, and where none has come.
  std::optional<store_protocol::Request> next_request();
  void reply(const store_protocol::Reply& reply);

  /// What is to be set when the connection ends.
  void keep_will(std::optional<std::pair<std::string, std::string>> will) { will_ = std::move(will); }
  const std::optional<std::pair<std::string, std::string>>& will() const { return will_; }

  void wait_for(const std::string& key, const Deadline& deadline) { wait_ = {key, deadline}; }
  bool waits_for(const std::string& key) const { return wait_ && wait_->key == key; }
  bool waits() const { return wait_.has_value(); }

 private:
  struct Wait {
    std::string key;
    Deadline deadline;
  };

  bool is_busy() const { return wait_.has_value() || !output_.empty(); }
  void flush();
  template <class Take>
  auto take_input(Take take);

  Socket socket_;
  bool is_introduced_ = false;
  Deadline hello_deadline_{kHelloTime};
  std::string input_;
  std::string output_;
  std::size_t sent_ = 0;  ///< of output_
  std::optional<Wait> wait_;
  std::optional<std::pair<std::string, std::string>> will_;
};

}  // namespace tandem::distributed
