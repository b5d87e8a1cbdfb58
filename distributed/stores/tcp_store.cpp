#include "tandem/distributed/stores/tcp_store.h"

#include <algorithm>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "tandem/distributed/error.h"
#include "tandem/distributed/network/socket.h"
#include "tandem/distributed/notice.h"
#include "tandem/distributed/stores/dictionary.h"
#include "tandem/distributed/stores/store_protocol.h"

namespace tandem::distributed {
namespace {

using store_protocol::Operation;
using store_protocol::Reply;
using store_protocol::Request;

// A server that is there answers in far less than a second; one that does not for so long hangs, or is none of ours.
constexpr Milliseconds kAnswerTime(5000);
constexpr Milliseconds kPatience(5000);  // before it is said what a process waits for
constexpr Milliseconds kFirstPause(20), kLongestPause(250);

std::string printable(std::string_view bytes) {
  std::string text;
  for (const char c : bytes.substr(0, 40)) text += c >= ' ' && c <= '~' ? c : '?';
  return text;
}

void send_all(Socket& socket, std::string_view bytes, const Deadline& deadline) {
  while (true) {
    bytes.remove_prefix(socket.send(bytes));
    if (bytes.empty()) return;
    if (!socket.wait_to_send(deadline)) throw TimeoutError("it does not read");
  }
}

// Asks `take` after each arrival until it has made something of the bytes, which begins with the first of them.
template <class Take>
auto receive_with(Socket& socket, Take take, const Deadline& deadline) {
  std::string bytes;
  while (true) {
    if (!socket.wait_to_receive(deadline)) throw TimeoutError("it does not answer");
    if (!socket.receive(bytes)) continue;
    std::string_view rest = bytes;
    auto message = take(rest);
    if (!message) continue;
    if (!rest.empty()) throw PeerError("it says more than it was asked");
    return std::move(*message);
  }
}

// A connection on which both sides have said hello. Throws PeerError where another try may help, Error where not.
Socket introduce(const Address& address, const std::string& url, const Deadline& deadline) {
  // One address of several may not answer.
  Socket socket = Socket::connect(address, std::min(deadline, Deadline(kAnswerTime)));
  const Deadline hello_deadline(kAnswerTime);
  send_all(socket, store_protocol::encode_hello(), hello_deadline);
  const auto take = [&](std::string_view& bytes) {
    try {
      return store_protocol::take_hello(bytes);
    } catch (const core::Error&) {
      core::fail("who listens at {} is no store of Tandem: it says '{}'; is the port right?", url, printable(bytes));
    }
  };
  std::uint32_t version = 0;
  try {
    version = receive_with(socket, take, hello_deadline);
  } catch (const TimeoutError&) {
    core::fail("who listens at {} is no store of Tandem, or it hangs: it said nothing for {} s; is the port right?",
               url, in_seconds(kAnswerTime));
  }
  if (version == store_protocol::kVersion) return socket;
  if (version == store_protocol::kFull)
    core::fail(
        "the store at {} has no room for one more process: the process that serves it may open no more files and "
        "connections: raise its limit (ulimit -n 4096)",
        url);
  core::fail("the store at {} speaks version {} of the protocol, this process version {}: use one build of Tandem", url,
             version, store_protocol::kVersion);
}

// One try at each address that the host has now. Where none answers, `reason` says why.
std::optional<Socket> try_to_connect(const std::string& host, std::uint16_t port, const Deadline& deadline,
                                     std::string& reason) {
  std::vector<Address> addresses;
  try {
    addresses = resolve(host, port);
  } catch (const core::Error& error) {  // its name may come into DNS later than this process
    reason = error.what();
    return std::nullopt;
  }
  for (const Address& address : addresses) {
    try {
      return introduce(address, "tcp://" + host_and_port(host, port), deadline);
    } catch (const PeerError& error) {
      reason = error.what();
    }
  }
  if (std::all_of(addresses.begin(), addresses.end(), [](const Address& a) { return is_loopback(a); }))
    check_loopback_is_up();
  return std::nullopt;
}

Socket connect_until(const std::string& host, std::uint16_t port, Milliseconds timeout) {
  const Deadline deadline(timeout), patience(kPatience);
  const std::string place = host_and_port(host, port);
  bool has_spoken = false;
  std::string reason;
  for (Milliseconds pause = kFirstPause;; pause = std::min(pause * 2, kLongestPause)) {
    if (auto socket = try_to_connect(host, port, deadline, reason)) return *std::move(socket);
    if (deadline.has_passed()) break;
    if (patience.has_passed() && !std::exchange(has_spoken, true))
      print_notice(fmt::format("waiting for a store at {} ({})", place, reason));
    std::this_thread::sleep_for(std::min(pause, deadline.nap()));
  }
  throw TimeoutError(
      fmt::format("nobody serves a store at {} ({}) after {} s: is rank 0 (or launch) running, and is "
                  "the address right?",
                  place, reason, in_seconds(timeout)));
}

}  // namespace

class TcpStore::Connection {
 public:
  Connection(std::string url, Socket socket) : url_(std::move(url)), socket_(std::move(socket)) {}

  // Throws PeerError where the store is gone, from then on at every call.
  Reply call(const Request& request, Milliseconds wait = Milliseconds(0)) {
    if (!failure_.empty()) throw PeerError(failure_);
    const Deadline deadline(std::clamp<Milliseconds>(wait, Milliseconds(0), std::chrono::hours(24 * 364)) +
                            kAnswerTime);
    Reply reply;
    try {
      send_all(socket_, store_protocol::encode(request), deadline);
      reply = receive_with(socket_, store_protocol::take_reply, deadline);
    } catch (const TimeoutError& error) {
      failure_ = fmt::format("the store at {} hangs: {} ({} s passed)", url_, error.what(),
                             in_seconds(std::max(wait, Milliseconds(0)) + kAnswerTime));
      socket_.close();  // a late answer would be taken for that to the next request
      throw TimeoutError(failure_);
    } catch (const core::Error& error) {
      failure_ = fmt::format("the store at {} is gone: {}", url_, error.what());
      socket_.close();
      throw PeerError(failure_);
    }
    if (reply.status == Reply::Status::error) throw core::Error(reply.value);
    return reply;
  }

  std::string local_address() const { return local_address_; }

 private:
  std::string url_;
  Socket socket_;
  std::string local_address_ = socket_.local_address().host();
  std::string failure_;
};

TcpStore::TcpStore(const std::string& host, std::uint16_t port, Milliseconds timeout)
    : host_(host),
      port_(port),
      connection_(std::make_unique<Connection>(TcpStore::str(), connect_until(host, port, timeout))) {}
TcpStore::~TcpStore() = default;

void TcpStore::set(const std::string& key, const std::string& value) {
  check_key(key);
  check_value(key, value);
  const std::lock_guard lock(mutex_);
  connection_->call({Operation::set, key, value, std::nullopt, 0});
}

std::optional<std::string> TcpStore::get(const std::string& key, Milliseconds timeout) {
  check_key(key);
  const std::lock_guard lock(mutex_);
  Reply reply = connection_->call({Operation::get, key, "", std::nullopt, timeout.count()}, timeout);
  if (reply.status == Reply::Status::missing) return std::nullopt;
  return std::move(reply.value);
}

std::int64_t TcpStore::add(const std::string& key, std::int64_t amount) {
  check_key(key);
  const std::lock_guard lock(mutex_);
  return connection_->call({Operation::add, key, "", std::nullopt, amount}).number;
}

std::optional<std::string> TcpStore::compare_and_set(const std::string& key, const std::optional<std::string>& expected,
                                                     const std::string& desired) {
  check_key(key);
  check_value(key, desired);
  // No key holds so much: nothing to set.
  if (expected && expected->size() > kMaxValue) return get(key, Milliseconds(0));
  const std::lock_guard lock(mutex_);
  Reply reply = connection_->call({Operation::compare_and_set, key, desired, expected, 0});
  if (reply.status == Reply::Status::missing) return std::nullopt;
  return std::move(reply.value);
}

bool TcpStore::remove(const std::string& key) {
  check_key(key);
  const std::lock_guard lock(mutex_);
  return connection_->call({Operation::remove, key, "", std::nullopt, 0}).number != 0;
}

bool TcpStore::set_at_end(const std::string& key, const std::optional<std::string>& value) {
  check_key(key);
  if (value) check_value(key, *value);
  const std::lock_guard lock(mutex_);
  connection_->call({Operation::set_at_end, key, value.value_or(""), std::nullopt, value.has_value()});
  return true;
}

// It was there a moment ago, so that there is little to wait for.
std::shared_ptr<Store> TcpStore::connect_again() { return std::make_shared<TcpStore>(host_, port_, kAnswerTime); }

std::string TcpStore::str() const { return "tcp://" + host_and_port(host_, port_); }
std::string TcpStore::local_address() const { return connection_->local_address(); }

}  // namespace tandem::distributed
