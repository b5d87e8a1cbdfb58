#include "tandem/distributed/work.h"

#include <utility>

#include "tandem/core/recorder.h"
#include "tandem/distributed/error.h"

namespace tandem::distributed {

namespace {

template <class E>
std::function<void()> thrower(const E& error) {
  return [message = std::string(error.what())] { throw E(message); };
}

// Each wait throws an exception of its own, which no other thread touches.
std::function<void()> thrower_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const TimeoutError& timeout) {
    return thrower(timeout);
  } catch (const PeerError& peer) {
    return thrower(peer);
  } catch (const core::Error& wrong) {
    return thrower(wrong);
  } catch (...) {
    return [error] { std::rethrow_exception(error); };
  }
}

}  // namespace

Work::Work() { times_.issued_ns = core::recorder::now_ns(); }

bool Work::is_done() const {
  const std::lock_guard lock(mutex_);
  return is_done_;
}

void Work::wait() {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return is_done_; });
  if (throw_error_) throw_error_();
  if (const auto f = std::exchange(when_waited_for_, nullptr)) f();
}

void Work::when_waited_for(std::function<void()> f) {
  const std::lock_guard lock(mutex_);
  when_waited_for_ = std::move(f);
}

WorkTimes Work::times() const {
  const std::lock_guard lock(mutex_);
  return times_;
}

std::int64_t Work::bytes_sent() const {
  const std::lock_guard lock(mutex_);
  return bytes_sent_;
}

void Work::start() {
  const std::lock_guard lock(mutex_);
  times_.started_ns = core::recorder::now_ns();
}

void Work::finish(std::exception_ptr error, std::int64_t bytes_sent) {
  auto throw_error = error ? thrower_of(error) : nullptr;
  const std::lock_guard lock(mutex_);
  times_.finished_ns = core::recorder::now_ns();
  throw_error_ = std::move(throw_error);
  bytes_sent_ = bytes_sent;
  is_done_ = true;
  done_.notify_all();
}

}  // namespace tandem::distributed
