// Deadline: the end of a wait, on the steady clock.
#pragma once

#include <algorithm>
#include <chrono>

#include "tandem/distributed/store.h"

namespace tandem::distributed {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  /// From now; what is negative has passed, and no wait is longer than a year, so that sums do not overflow.
  explicit Deadline(Milliseconds timeout)
      : when_(Clock::now() + std::clamp<Milliseconds>(timeout, Milliseconds(0), std::chrono::hours(24 * 365))) {}

  Clock::time_point when() const { return when_; }
  bool has_passed() const { return Clock::now() >= when_; }
  /// Rounded up, so that who sleeps for so long wakes after the deadline; 0 where it has passed.
  Milliseconds left() const { return std::max(Milliseconds(0), std::chrono::ceil<Milliseconds>(when_ - Clock::now())); }
  bool operator<(const Deadline& other) const { return when_ < other.when_; }

 private:
  Clock::time_point when_;
};

}  // namespace tandem::distributed
