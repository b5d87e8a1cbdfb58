// The signals that the launcher hears, as a file descriptor that can be polled.
#pragma once

#include <csignal>
#include <vector>

#include "tandem/core/process/blocked_signals.h"

namespace tandem::launch {

class Signals {
 public:
  /// From now on SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2 and SIGTSTP (Ctrl-Z), unless they were ignored at
  /// the start, and SIGCHLD are read here, in this thread and those that it will start. Throws Error.
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  int fd() const { return fd_; }
  struct Received {
    std::vector<int> wishes_to_end;  ///< SIGINT, SIGTERM, SIGQUIT, SIGHUP, as they came
    std::vector<int> to_pass_on;     ///< SIGUSR1, SIGUSR2: the ranks decide what they mean
    bool wants_pause = false;
    bool child_ended = false;
  };
  /// Does not wait.
  Received read();
  /// Pauses this process, as Ctrl-Z would have done. Returns when it goes on.
  static void pause();
  /// What is to be blocked in processes that are started.
  sigset_t mask_of_children() const { return blocked_.for_children(); }

 private:
  const core::BlockedSignals blocked_;
  int fd_ = -1;
};

}  // namespace tandem::launch
