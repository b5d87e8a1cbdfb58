// Which of several signals is a wish of its own.
#pragma once

#include <chrono>

namespace tandem::core {

/// `timeout`, a scheduler and a service manager send the same signal to a process, its group and its children, so that
/// one wish to stop comes several times, with a launcher in between within some milliseconds.
class Repeats {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kMoment{1};

  enum class Wish : unsigned char {
    first,   ///< stop in good order
    repeat,  ///< came within a moment of the first: the same wish
    second,  ///< end at once
  };
  Wish take(Clock::time_point now = Clock::now()) {
    if (count_++ == 0) first_ = now;
    if (count_ == 1) return Wish::first;
    return now - first_ <= kMoment ? Wish::repeat : Wish::second;
  }

 private:
  int count_ = 0;
  Clock::time_point first_;
};

}  // namespace tandem::core
