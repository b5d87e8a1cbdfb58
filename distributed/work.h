// Work: a collective that was issued and may still be running.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

namespace tandem::distributed {

/// When a collective was issued, began and ended: nanoseconds of the recorder's clock (core/recorder.h).
struct WorkTimes {
  std::int64_t issued_ns = 0, started_ns = 0, finished_ns = 0;
};

class Work {
 public:
  Work();

  /// Whether it has ended, well or not.
  bool is_done() const;
  /// Returns when it has ended, and what this thread computes next may use its results. Throws what it failed with:
  /// PeerError, TimeoutError, or Error for wrong arguments. It always ends: the group's deadline sees to that.
  void wait();
  /// Zeros for what has not happened yet.
  WorkTimes times() const;
  /// Bytes that this rank sent for it.
  std::int64_t bytes_sent() const;

  // For the group that runs it.
  void start();
  void finish(std::exception_ptr error, std::int64_t bytes_sent = 0);
  /// `f` runs once, in the first wait() that sees it ended well.
  void when_waited_for(std::function<void()> f);

 private:
  mutable std::mutex mutex_;
  std::condition_variable done_;
  bool is_done_ = false;
  std::function<void()> throw_error_;  // none: it ended well
  std::function<void()> when_waited_for_;
  WorkTimes times_;
  std::int64_t bytes_sent_ = 0;
};

using WorkPtr = std::shared_ptr<Work>;

}  // namespace tandem::distributed
