// Deadline: the end of a wait, by the time that this process is awake.
#pragma once

#include <algorithm>
#include <chrono>

#include "tandem/distributed/awake_clock.h"
#include "tandem/distributed/store.h"

namespace tandem::distributed {

class Deadline {
 public:
  using Clock = AwakeClock;

  /// From now; what is negative has passed, and no wait is longer than a year, so that sums do not overflow.
  explicit Deadline(Milliseconds timeout)
      : when_(Clock::now() + std::clamp<Milliseconds>(timeout, Milliseconds(0), std::chrono::hours(24 * 365))) {}

  Clock::time_point when() const { return when_; }
  bool has_passed() const { return Clock::now() >= when_; }
  /// How long to sleep before looking again: up to the deadline, rounded up, or as long as the clock allows; 0 if the
  /// deadline has passed.
  Milliseconds nap() const {
    return std::clamp<Milliseconds>(std::chrono::ceil<Milliseconds>(when_ - Clock::now()), Milliseconds(0),
                                    Clock::kLook);
  }
  bool operator<(const Deadline& other) const { return when_ < other.when_; }

 private:
  Clock::time_point when_;
};

}  // namespace tandem::distributed
