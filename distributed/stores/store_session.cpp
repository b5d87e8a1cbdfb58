#include "tandem/distributed/stores/store_session.h"

#include <poll.h>

#include <string_view>

#include "tandem/distributed/error.h"

namespace tandem::distributed {

short StoreSession::events() const {
  return static_cast<short>(POLLRDHUP | (is_busy() ? 0 : POLLIN) | (output_.empty() ? 0 : POLLOUT));
}

std::optional<Deadline> StoreSession::deadline() const {
  if (!is_introduced_) return hello_deadline_;
  return wait_ ? std::optional(wait_->deadline) : std::nullopt;
}

void StoreSession::transfer(short events) {
  if ((events & (POLLERR | POLLNVAL)) != 0) throw PeerError("connection lost");
  // Nobody will read the answer.
  if ((events & (POLLHUP | POLLRDHUP)) != 0 && is_busy()) throw PeerError("connection closed by the other side");
  flush();
  if ((events & POLLIN) != 0 && !is_busy()) socket_.receive(input_);
}

template <class Take>
auto StoreSession::take_input(Take take) {
  std::string_view rest = input_;
  auto message = take(rest);
  input_.erase(0, input_.size() - rest.size());
  if (input_.empty()) input_.shrink_to_fit();  // a large value has passed
  return message;
}

bool StoreSession::introduces_itself() {
  if (is_introduced_) return false;
  const auto version = take_input(store_protocol::take_hello);
  if (!version) return false;
  if (*version != store_protocol::kVersion) {
    welcome();  // it hears our version, and can say what is wrong
    core::fail("store protocol: version {}", *version);
  }
  is_introduced_ = true;
  return true;
}

void StoreSession::welcome() {
  output_ = store_protocol::encode_hello();
  flush();
}

std::optional<store_protocol::Request> StoreSession::next_request() {
  if (!is_introduced_ || is_busy()) return std::nullopt;
  return take_input(store_protocol::take_request);
}

void StoreSession::reply(const store_protocol::Reply& reply) {
  wait_.reset();
  output_ = store_protocol::encode(reply);
  flush();
}

void StoreSession::flush() {
  if (output_.empty()) return;
  sent_ += socket_.send(std::string_view(output_).substr(sent_));
  if (sent_ < output_.size()) return;
  output_ = std::string();
  sent_ = 0;
}

}  // namespace tandem::distributed
