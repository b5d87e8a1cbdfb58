#include "tandem/distributed/stores/tcp_store_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <list>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "tandem/distributed/error.h"
#include "tandem/distributed/network/socket.h"
#include "tandem/distributed/stores/dictionary.h"
#include "tandem/distributed/stores/store_protocol.h"

namespace tandem::distributed {
namespace {

using store_protocol::Operation;
using store_protocol::Reply;
using store_protocol::Request;

// Who connects has so long to say hello; and at most so many may be about to, since each takes a descriptor.
constexpr Milliseconds kHelloTime(5000);
constexpr std::size_t kMostStrangers = 64;
// Few at a time, so that who is accepted can say hello before the next ones push it out.
constexpr int kAcceptsAtOnce = 16;

// A connection. It works at one request at a time and is not read while it does, so that neither who sends without end
// nor who never reads takes more memory than one request and one reply.
struct Client {
  explicit Client(Socket connection) : socket(std::move(connection)) {}

  Socket socket;
  bool is_introduced = false;
  Deadline hello_deadline{kHelloTime};
  std::string input;
  std::string output;
  std::size_t sent = 0;  ///< of output
  struct Wait {
    std::string key;
    Deadline deadline;
  };
  std::optional<Wait> wait;  ///< a get whose key is not there yet

  bool is_busy() const { return wait.has_value() || !output.empty(); }
};

// The first that can be bound decides about port 0. Addresses that this machine has not (::1 of "localhost", where
// there is no IPv6) are left out where there are others.
std::vector<Socket> listen_on_all(const std::string& host, std::uint16_t port) {
  std::vector<Socket> listeners;
  std::string reason;
  for (Address address : listen_addresses(host, port)) {
    if (!listeners.empty()) address.set_port(listeners.front().local_address().port());
    try {
      listeners.push_back(Socket::listen(address));
    } catch (const core::Error& error) {
      reason = error.what();
      if (reason.find("is in use") != std::string::npos) throw;
    }
  }
  if (listeners.empty()) throw core::Error(reason);
  return listeners;
}

std::vector<Socket> listen_somewhere(const std::string& host, std::uint16_t port) {
  // A port that is free on the first address may be taken on the second.
  for (int tries = 0; port == 0 && tries < 20; ++tries) {
    try {
      return listen_on_all(host, port);
    } catch (const core::Error& error) {
      if (std::string_view(error.what()).find("is in use") == std::string_view::npos) throw;
    }
  }
  return listen_on_all(host, port);
}

}  // namespace

class TcpStoreServer::Implementation {
 public:
  Implementation(const std::string& host, std::uint16_t port)
      : listeners_(listen_somewhere(host, port)),
        port_(listeners_.front().local_address().port()),
        stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!stop_.is_open()) core::fail("cannot serve a store: {}", system_reason(errno));
    thread_ = std::thread([this] { serve(); });
  }

  ~Implementation() {
    const std::uint64_t one = 1;
    while (write(stop_.descriptor(), &one, sizeof(one)) < 0 && errno == EINTR) continue;
    thread_.join();
  }

  std::uint16_t port() const { return port_; }
  int clients() const { return introduced_; }

 private:
  void serve();
  int time_to_next_deadline() const;
  void accept_from(Socket& listener);
  void drop_oldest_stranger();
  bool work_with(Client& client, short events);
  void read_from(Client& client);
  void answer_input(Client& client);
  void answer(Client& client, Request request);
  void reply_to(Client& client, const Reply& reply);
  void flush(Client& client);
  void wake_waits(const std::string& key);
  bool expire(Client& client);
  void forget(const Client& client);

  std::vector<Socket> listeners_;
  std::uint16_t port_;
  Socket stop_;  // an eventfd
  std::atomic<int> introduced_ = 0;
  Dictionary dictionary_;
  std::list<Client> clients_;  // in the order of their coming
  std::size_t strangers_ = 0;
  std::thread thread_;
};

void TcpStoreServer::Implementation::serve() {
  std::vector<pollfd> entries;
  while (true) {
    entries.assign(1, {stop_.descriptor(), POLLIN, 0});
    for (const Socket& listener : listeners_) entries.push_back({listener.descriptor(), POLLIN, 0});
    for (const Client& client : clients_) {
      const int events = POLLRDHUP | (client.is_busy() ? 0 : POLLIN) | (client.output.empty() ? 0 : POLLOUT);
      entries.push_back({client.socket.descriptor(), static_cast<short>(events), 0});
    }
    if (poll(entries.data(), entries.size(), time_to_next_deadline()) < 0) {
      for (pollfd& entry : entries) entry.revents = 0;  // interrupted
    }
    if (entries[0].revents != 0) return;
    // Clients before listeners: entries and clients_ go side by side until somebody new comes.
    auto entry = entries.begin() + 1 + static_cast<std::ptrdiff_t>(listeners_.size());
    for (auto client = clients_.begin(); client != clients_.end(); ++entry) {
      const bool stays = (entry->revents == 0 || work_with(*client, entry->revents)) && !expire(*client);
      if (!stays) forget(*client);
      client = stays ? std::next(client) : clients_.erase(client);
    }
    for (std::size_t i = 0; i < listeners_.size(); ++i) {
      if (entries[1 + i].revents != 0) accept_from(listeners_[i]);
    }
  }
}

int TcpStoreServer::Implementation::time_to_next_deadline() const {
  std::optional<Deadline> next;
  const auto consider = [&](const Deadline& deadline) {
    if (!next || deadline < *next) next = deadline;
  };
  for (const Client& client : clients_) {
    if (!client.is_introduced) consider(client.hello_deadline);
    if (client.wait) consider(client.wait->deadline);
  }
  return next ? static_cast<int>(std::min<std::int64_t>(next->left().count(), INT_MAX)) : -1;
}

void TcpStoreServer::Implementation::accept_from(Socket& listener) {
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    try {
      auto accepted = listener.accept();
      if (!accepted) return;
      clients_.emplace_back(std::move(*accepted));
      if (++strangers_ > kMostStrangers) drop_oldest_stranger();
    } catch (const core::Error&) {  // out of descriptors
      if (strangers_ == 0) std::this_thread::sleep_for(Milliseconds(10));
      drop_oldest_stranger();
      return;
    }
  }
}

void TcpStoreServer::Implementation::drop_oldest_stranger() {
  const auto oldest =
      std::find_if(clients_.begin(), clients_.end(), [](const Client& client) { return !client.is_introduced; });
  if (oldest == clients_.end()) return;
  forget(*oldest);
  clients_.erase(oldest);
}

void TcpStoreServer::Implementation::forget(const Client& client) {
  if (client.is_introduced) {
    --introduced_;
  } else {
    --strangers_;
  }
}

// Whether the connection stays.
bool TcpStoreServer::Implementation::work_with(Client& client, short events) {
  if ((events & (POLLERR | POLLNVAL)) != 0) return false;
  // Nobody reads the answer.
  if ((events & (POLLHUP | POLLRDHUP)) != 0 && client.is_busy()) return false;
  try {
    flush(client);
    if ((events & POLLIN) != 0) read_from(client);
    answer_input(client);
    return true;
  } catch (const core::Error&) {  // it left, or sent what no client sends
    return false;
  }
}

void TcpStoreServer::Implementation::read_from(Client& client) {
  if (!client.is_busy()) client.socket.receive(client.input);
}

void TcpStoreServer::Implementation::answer_input(Client& client) {
  std::string_view input = client.input;
  if (!client.is_introduced) {
    const auto version = store_protocol::take_hello(input);
    if (!version) return;
    client.output = store_protocol::encode_hello();
    flush(client);
    // It reads our version and can say what is wrong.
    if (*version != store_protocol::kVersion) core::fail("store protocol: version {}", *version);
    client.is_introduced = true;
    --strangers_;
    ++introduced_;
  }
  while (!client.is_busy()) {
    auto request = store_protocol::take_request(input);
    if (!request) break;
    answer(client, std::move(*request));
  }
  client.input.erase(0, client.input.size() - input.size());
  // What a large value took is given back.
  if (client.input.empty()) client.input.shrink_to_fit();
}

void TcpStoreServer::Implementation::answer(Client& client, Request request) {
  Reply reply;
  try {
    switch (request.operation) {
      case Operation::set: dictionary_.set(request.key, request.value); break;
      case Operation::add: reply.number = dictionary_.add(request.key, request.number); break;
      case Operation::compare_and_set: dictionary_.compare_and_set(request.key, request.expected, request.value); break;
      case Operation::remove: reply.number = dictionary_.remove(request.key) ? 1 : 0; break;
      case Operation::get: break;
    }
    if (request.operation == Operation::get || request.operation == Operation::compare_and_set) {
      auto value = dictionary_.find(request.key);
      if (!value && request.operation == Operation::get && request.number > 0) {
        client.wait = {std::move(request.key), Deadline(Milliseconds(request.number))};
        return;
      }
      reply.status = value ? Reply::Status::found : Reply::Status::missing;
      reply.value = std::move(value).value_or("");
    }
  } catch (const core::Error& error) {
    reply = {Reply::Status::error, error.what(), 0};
  }
  // First the others: this client may be gone, and then an exception ends its turn.
  const bool may_have_made_it = request.operation != Operation::get && request.operation != Operation::remove;
  if (may_have_made_it) wake_waits(request.key);
  reply_to(client, reply);
}

void TcpStoreServer::Implementation::reply_to(Client& client, const Reply& reply) {
  client.output = store_protocol::encode(reply);
  client.sent = 0;
  flush(client);
}

void TcpStoreServer::Implementation::flush(Client& client) {
  if (client.output.empty()) return;
  client.sent += client.socket.send(std::string_view(client.output).substr(client.sent));
  if (client.sent < client.output.size()) return;
  client.output = std::string();
  client.sent = 0;
}

void TcpStoreServer::Implementation::wake_waits(const std::string& key) {
  for (Client& client : clients_) {
    if (!client.wait || client.wait->key != key) continue;
    const auto value = dictionary_.find(key);
    if (!value) return;
    client.wait.reset();
    try {
      reply_to(client, {Reply::Status::found, *value, 0});
    } catch (const PeerError&) {  // it is gone; poll says so, too
    }
  }
}

// Whether the connection ends because nothing came. A wait that has passed its deadline is answered.
bool TcpStoreServer::Implementation::expire(Client& client) {
  if (!client.is_introduced) return client.hello_deadline.has_passed();
  if (!client.wait || !client.wait->deadline.has_passed()) return false;
  client.wait.reset();
  try {
    reply_to(client, {Reply::Status::missing, "", 0});
    return false;
  } catch (const PeerError&) {
    return true;
  }
}

TcpStoreServer::TcpStoreServer(const std::string& host, std::uint16_t port)
    : implementation_(std::make_unique<Implementation>(host, port)) {}
TcpStoreServer::~TcpStoreServer() = default;
std::uint16_t TcpStoreServer::port() const { return implementation_->port(); }
int TcpStoreServer::clients() const { return implementation_->clients(); }

}  // namespace tandem::distributed
