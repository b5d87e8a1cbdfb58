// AwakeClock: time that this process was awake. A process that is paused (Ctrl-Z, a suspended machine) must not count
// the pause as the silence of others.
#pragma once

#include <algorithm>
#include <chrono>

namespace tandem::distributed {

/// A steady clock. Who waits by it looks at it at least once a second, so a long time between two looks, of anybody in
/// this process, was a pause: of that kMost counts.
class AwakeClock {
 public:
  using duration = std::chrono::steady_clock::duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<AwakeClock>;
  static constexpr bool is_steady = true;

  static constexpr std::chrono::seconds kLook{1}, kMost{2};

  static time_point now();
};

/// The time counted by an AwakeClock, given looks at another clock: to be tried alone.
class AwakeTime {
 public:
  using Steady = std::chrono::steady_clock;

  explicit AwakeTime(Steady::time_point begin) : looked_(begin) {}
  Steady::duration look(Steady::time_point now) {
    awake_ += std::clamp<Steady::duration>(now - looked_, Steady::duration(0), AwakeClock::kMost);
    looked_ = std::max(looked_, now);
    return awake_;
  }

 private:
  Steady::time_point looked_;
  Steady::duration awake_{0};
};

/// As condition.wait_until(lock, deadline, is_ready).
template <class Condition, class Lock, class Predicate>
bool wait_until(Condition& condition, Lock& lock, AwakeClock::time_point deadline, Predicate is_ready) {
  while (!is_ready()) {
    const auto now = AwakeClock::now();
    if (now >= deadline) return false;
    condition.wait_for(lock, std::min<AwakeClock::duration>(deadline - now, AwakeClock::kLook));
  }
  return true;
}

}  // namespace tandem::distributed
