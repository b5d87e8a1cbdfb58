// No handler runs on a thread that computes: signals are blocked in all threads, and read where they can be waited for.
//
// A handler would run on whatever stack the signal finds. Some kernels of oneDNN compute with the stack pointer in the
// middle of their data, which a handler then overwrites.
#pragma once

#include <csignal>

namespace tandem::core {

/// Of this process, now.
bool is_ignored(int signal);

class BlockedSignals {
 public:
  /// To be made in main's first line, since threads inherit what is blocked. Blocks all signals, also those for which a
  /// library may install a handler, but for these: faults that a thread raises itself, SIGQUIT and SIGXCPU, which end
  /// the process, and those that pause it (Ctrl-Z). SIGPIPE and SIGXFSZ are ignored: the write fails instead.
  BlockedSignals();
  /// As it was before.
  ~BlockedSignals();
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

  /// The wishes to stop: SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2, but for those that were ignored at the start, as
  /// nohup and a shell's & do it. For sigwait and signalfd.
  const sigset_t& stops() const { return stops_; }
  /// For processes that are started: what was blocked before, but for the signals that they need.
  sigset_t for_children() const;

 private:
  sigset_t before_{}, stops_{};
  void (*sigpipe_before_)(int);
  void (*sigxfsz_before_)(int);
};

}  // namespace tandem::core
