#include "tandem/distributed/work.h"

#include <utility>

#include "tandem/core/recorder.h"

namespace tandem::distributed {

Work::Work() { times_.issued_ns = core::recorder::now_ns(); }

bool Work::is_done() const {
  const std::lock_guard lock(mutex_);
  return is_done_;
}

void Work::wait() {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return is_done_; });
  if (error_) std::rethrow_exception(error_);
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
  const std::lock_guard lock(mutex_);
  times_.finished_ns = core::recorder::now_ns();
  error_ = std::move(error);
  bytes_sent_ = bytes_sent;
  is_done_ = true;
  done_.notify_all();
}

}  // namespace tandem::distributed
