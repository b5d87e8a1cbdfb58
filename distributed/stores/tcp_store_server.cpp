#include "tandem/distributed/stores/tcp_store_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <list>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "tandem/core/start_thread.h"
#include "tandem/distributed/error.h"
#include "tandem/distributed/network/socket.h"
#include "tandem/distributed/stores/dictionary.h"
#include "tandem/distributed/stores/store_protocol.h"
#include "tandem/distributed/stores/store_session.h"

namespace tandem::distributed {
namespace {

using store_protocol::Operation;
using store_protocol::Reply;
using store_protocol::Request;

// So many may be about to say hello, since each takes a descriptor.
constexpr std::size_t kMostStrangers = 64;
// Few at a time, so that who is accepted can say hello before the next ones push it out.
constexpr int kAcceptsAtOnce = 16;

// Where there is no room: for who has been let in to say hello, and for who cannot be let in.
constexpr Milliseconds kTimeToSpeak(100), kRefusalTime(50);

Socket make_spare() { return Socket(eventfd(0, EFD_CLOEXEC)); }

// The first that can be bound decides about port 0. Addresses that this machine has not (::1 of "localhost", where
// there is no IPv6) are left out where there are others.
std::vector<Socket> listen_on_all(const std::string& host, std::uint16_t port) {
  std::vector<Socket> listeners;
  std::string reason;
  for (Address address : listen_addresses(host, port)) {
    if (!listeners.empty()) address.set_port(listeners.front().local_address().port());
    try {
      listeners.push_back(Socket::listen(address));
    } catch (const PortInUseError&) {
      throw;
    } catch (const core::Error& error) {
      reason = error.what();
    }
  }
  if (listeners.empty()) throw core::Error(reason);
  return listeners;
}

// A port that is free on the first address may be taken on the second.
std::vector<Socket> listen_somewhere(const std::string& host) {
  for (int tries_left = 20; tries_left > 0; --tries_left) {
    try {
      return listen_on_all(host, 0);
    } catch (const PortInUseError&) {
    }
  }
  return listen_on_all(host, 0);
}

}  // namespace

class TcpStoreServer::Implementation {
 public:
  Implementation(const std::string& host, std::uint16_t port)
      : listeners_(port == 0 ? listen_somewhere(host) : listen_on_all(host, port)),
        port_(listeners_.front().local_address().port()),
        stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        spare_(make_spare()) {
    if (!stop_.is_open() || !spare_.is_open()) core::fail("cannot serve a store: {}", system_reason(errno));
    thread_ = core::start_thread("that serves the store", [this] { return std::thread([this] { serve(); }); });
  }

  ~Implementation() {
    const std::uint64_t one = 1;
    while (write(stop_.descriptor(), &one, sizeof(one)) < 0 && errno == EINTR) continue;
    thread_.join();
  }

  std::uint16_t port() const { return port_; }
  std::vector<Address> addresses() const {
    std::vector<Address> all;
    for (const Socket& listener : listeners_) all.push_back(listener.local_address());
    return all;
  }
  int clients() const { return introduced_; }

 private:
  void serve();
  int time_to_next_look() const;
  void accept_from(Socket& listener);
  void make_room(Socket& listener);
  void refuse_next(Socket& listener);
  void drop_oldest_stranger();
  void forget(const StoreSession& session);
  bool work_with(StoreSession& session, short events);
  void answer(StoreSession& session, const Request& request);
  Reply reply_to(const Request& request);
  void wake_waits(const std::string& key);

  std::vector<Socket> listeners_;
  std::uint16_t port_;
  Socket stop_;   // an eventfd
  Socket spare_;  // a descriptor that is only there to be given up
  std::atomic<int> introduced_ = 0;
  Dictionary dictionary_;
  std::list<StoreSession> sessions_;  // in the order of their coming
  std::size_t strangers_ = 0;         // sessions without a hello
  std::thread thread_;
};

void TcpStoreServer::Implementation::serve() {
  std::vector<pollfd> entries;
  while (true) {
    entries.assign(1, {stop_.descriptor(), POLLIN, 0});
    for (const Socket& listener : listeners_) entries.push_back({listener.descriptor(), POLLIN, 0});
    for (const StoreSession& session : sessions_) entries.push_back({session.descriptor(), session.events(), 0});
    if (poll(entries.data(), entries.size(), time_to_next_look()) < 0) {
      for (pollfd& entry : entries) entry.revents = 0;  // interrupted
    }
    if (entries[0].revents != 0) return;
    // Sessions before listeners: entries and sessions_ go side by side until somebody new comes.
    auto entry = entries.begin() + 1 + static_cast<std::ptrdiff_t>(listeners_.size());
    for (auto session = sessions_.begin(); session != sessions_.end(); ++entry) {
      const bool stays = work_with(*session, entry->revents);
      if (stays) {
        ++session;
        continue;
      }
      const auto will = session->will();
      forget(*session);
      session = sessions_.erase(session);
      if (will && dictionary_.compare_and_set(will->first, std::nullopt, will->second)) wake_waits(will->first);
    }
    for (std::size_t i = 0; i < listeners_.size(); ++i) {
      if (entries[1 + i].revents != 0) accept_from(listeners_[i]);
    }
  }
}

int TcpStoreServer::Implementation::time_to_next_look() const {
  std::optional<Deadline> next;
  for (const StoreSession& session : sessions_) {
    const auto deadline = session.deadline();
    if (deadline && (!next || *deadline < *next)) next = deadline;
  }
  return next ? static_cast<int>(next->nap().count()) : -1;
}

void TcpStoreServer::Implementation::accept_from(Socket& listener) {
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    bool is_out_of_descriptors = false;
    auto socket = listener.accept(is_out_of_descriptors);
    if (is_out_of_descriptors) {
      if (listener.wait_to_receive(Deadline(Milliseconds(0)))) make_room(listener);  // else nobody waits to come in
      return;
    }
    if (!socket) return;
    sessions_.emplace_back(std::move(*socket));
    if (++strangers_ > kMostStrangers) drop_oldest_stranger();
  }
}

// Strangers that had time to say hello go; others get it. Where all have said it nobody can be dropped, and who comes
// next is told so.
void TcpStoreServer::Implementation::make_room(Socket& listener) {
  if (strangers_ == 0) return refuse_next(listener);
  const auto oldest =
      std::find_if(sessions_.begin(), sessions_.end(), [](const auto& session) { return !session.is_introduced(); });
  if (oldest->deadline()->when() - Deadline::Clock::now() < StoreSession::kHelloTime - kTimeToSpeak) return drop_oldest_stranger();
  std::this_thread::sleep_for(Milliseconds(10));
}

// On the descriptor that was kept for this.
void TcpStoreServer::Implementation::refuse_next(Socket& listener) {
  spare_.close();
  bool is_out_of_descriptors = false;
  try {
    if (auto socket = listener.accept(is_out_of_descriptors)) {
      std::string ignored;
      if (socket->wait_to_receive(Deadline(kRefusalTime)))
        socket->receive(ignored);  // else its end would cut ours short
      socket->send(store_protocol::encode_hello(store_protocol::kFull));
    }
  } catch (const PeerError&) {  // it has left
  }
  spare_ = make_spare();
  if (is_out_of_descriptors) std::this_thread::sleep_for(Milliseconds(10));
}

void TcpStoreServer::Implementation::drop_oldest_stranger() {
  const auto oldest =
      std::find_if(sessions_.begin(), sessions_.end(), [](const auto& session) { return !session.is_introduced(); });
  if (oldest == sessions_.end()) return;
  forget(*oldest);
  sessions_.erase(oldest);
}

void TcpStoreServer::Implementation::forget(const StoreSession& session) {
  if (session.is_introduced()) {
    --introduced_;
  } else {
    --strangers_;
  }
}

// Whether the session stays.
bool TcpStoreServer::Implementation::work_with(StoreSession& session, short events) {
  try {
    if (events != 0) {
      session.transfer(events);
      if (session.introduces_itself()) {
        --strangers_;
        ++introduced_;
        session.welcome();
      }
      while (const auto request = session.next_request()) answer(session, *request);
    }
    const auto deadline = session.deadline();
    if (!deadline || !deadline->has_passed()) return true;
    if (!session.waits()) return false;  // no hello
    session.reply({Reply::Status::missing, "", 0});
    return true;
  } catch (const core::Error&) {  // it left, or sent what no client sends
    return false;
  }
}

void TcpStoreServer::Implementation::answer(StoreSession& session, const Request& request) {
  const bool is_get = request.operation == Operation::get;
  if (is_get && request.number > 0 && !dictionary_.find(request.key)) {
    session.wait_for(request.key, Deadline(Milliseconds(request.number)));
    return;
  }
  if (request.operation == Operation::set_at_end) {
    session.keep_will(request.number == 0 ? std::nullopt : std::optional(std::pair(request.key, request.value)));
    session.reply({});
    return;
  }
  const Reply reply = reply_to(request);
  // First the others: this client may be gone, and then an exception ends its turn.
  if (!is_get && request.operation != Operation::remove) wake_waits(request.key);
  session.reply(reply);
}

Reply TcpStoreServer::Implementation::reply_to(const Request& request) {
  Reply reply;
  const auto find = [&] {
    auto value = dictionary_.find(request.key);
    reply.status = value ? Reply::Status::found : Reply::Status::missing;
    reply.value = std::move(value).value_or("");
  };
  try {
    switch (request.operation) {
      case Operation::get: find(); break;
      case Operation::set: dictionary_.set(request.key, request.value); break;
      case Operation::add: reply.number = dictionary_.add(request.key, request.number); break;
      case Operation::compare_and_set:
        dictionary_.compare_and_set(request.key, request.expected, request.value);
        find();
        break;
      case Operation::remove: reply.number = dictionary_.remove(request.key) ? 1 : 0; break;
      case Operation::set_at_end: break;  // the session's own affair
    }
  } catch (const core::Error& error) {
    reply = {Reply::Status::error, error.what(), 0};
  }
  return reply;
}

void TcpStoreServer::Implementation::wake_waits(const std::string& key) {
  for (StoreSession& session : sessions_) {
    if (!session.waits_for(key)) continue;
    const auto value = dictionary_.find(key);
    if (!value) return;
    try {
      session.reply({Reply::Status::found, *value, 0});
    } catch (const PeerError&) {  // it is gone; poll says so, too
    }
  }
}

TcpStoreServer::TcpStoreServer(const std::string& host, std::uint16_t port)
    : implementation_(std::make_unique<Implementation>(host, port)) {}
TcpStoreServer::~TcpStoreServer() = default;
std::uint16_t TcpStoreServer::port() const { return implementation_->port(); }
std::vector<Address> TcpStoreServer::addresses() const { return implementation_->addresses(); }
int TcpStoreServer::clients() const { return implementation_->clients(); }

}  // namespace tandem::distributed
