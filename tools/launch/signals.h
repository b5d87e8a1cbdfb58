// The signals that the launcher hears, as a file descriptor that can be polled.
#pragma once

#include <csignal>
#include <vector>

namespace tandem::launch {

class Signals {
 public:
  /// From now on SIGINT, SIGTERM, SIGQUIT, SIGHUP (unless it was ignored: nohup), SIGUSR1, SIGUSR2 and SIGCHLD are read
  /// here, in this thread and those that it will start; SIGPIPE is ignored. Throws Error.
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  int fd() const { return fd_; }
  struct Received {
    std::vector<int> wishes_to_end;  ///< SIGINT, SIGTERM, SIGQUIT, SIGHUP, as they came
    std::vector<int> to_pass_on;     ///< SIGUSR1, SIGUSR2
    bool child_ended = false;
  };
  /// Does not wait.
  Received read();
  /// What was blocked before, for processes that are started.
  const sigset_t& original_mask() const { return original_mask_; }

 private:
  int fd_ = -1;
  sigset_t original_mask_{};
};

}  // namespace tandem::launch
