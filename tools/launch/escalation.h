// When what is left of the ranks is made to end: by SIGTERM, then SIGKILL, or by SIGKILL once nothing moves any more.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace tandem::launch {

class Escalation {
 public:
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;

  /// SIGTERM after `grace`, SIGKILL soon after that. Does nothing if a signal is planned already.
  void terminate_after(Seconds grace, Clock::time_point now);
  /// SIGKILL once `progress` in note_progress() has been the same for `limit`.
  void kill_without_progress(Seconds limit, Clock::time_point now);
  /// What the ranks have done so far, in any words.
  void note_progress(const std::string& progress, Clock::time_point now);
  void kill_now(Clock::time_point now);
  /// The process was paused for so long, and the ranks with it.
  void postpone(Clock::duration pause);

  /// The signal that is due, once; SIGKILL follows SIGTERM.
  std::optional<int> take_due(Clock::time_point now);
  /// None: nothing is planned.
  std::optional<Clock::time_point> next() const { return next_; }
  bool waits_for_progress() const { return limit_.has_value(); }

 private:
  int signal_ = 0;
  std::optional<Clock::time_point> next_;
  std::optional<Clock::duration> limit_;
  std::string progress_;
};

}  // namespace tandem::launch
