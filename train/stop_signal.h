// Wishes to stop: the signals SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2, and output that is not taken any more. They
// are granted between two updates.
//
// A thread of its own waits for the signals; no handler is installed (core/process/blocked_signals.h says why).
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "tandem/core/process/blocked_signals.h"
#include "tandem/core/process/repeats.h"

namespace tandem::train {

/// Output that takes no more.
struct LostOutput {
  std::string what;  ///< "stdout", or a file
  int error = 0;     ///< errno
};

class StopSignal {
 public:
  /// To be made in main's first line. Until defer() a signal ends the process at once.
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  /// From now on there is something to lose: a signal is noted, and only a second one ends the process at once.
  void defer() { is_deferred_ = true; }
  /// The number of the signal that came, 0 where none did; SIGPIPE for output that was lost.
  int received() const { return received_; }

  /// Of a run that goes on without it: all of its ranks stop, with a checkpoint.
  void lose_output(const std::string& what, int error);
  /// The first; none where all output is taken.
  std::optional<LostOutput> lost_output() const;

 private:
  void listen(const std::stop_token& stop);
  [[noreturn]] static void end_process(int signal, const char* when);

  const core::BlockedSignals blocked_;
  std::atomic<bool> is_deferred_{false};
  std::atomic<int> received_{0};
  mutable std::mutex mutex_;
  std::optional<LostOutput> lost_output_;
  std::jthread thread_;  // the last member: it uses the others
};

}  // namespace tandem::train
