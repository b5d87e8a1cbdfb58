// Guard: a process that ends the ranks where the launcher itself was killed and could not.
//
// It is forked before anything else, in a session of its own, and learns of each rank over a pipe. When the pipe closes
// without a word, the launcher is gone: ranks, which notice that the store is gone too, get some seconds, then their
// process groups are killed.
#pragma once

#include <sys/types.h>

namespace tandem::launch {

class Guard {
 public:
  /// To be made while the process has one thread. Throws Error where there can be no process.
  Guard();
  /// The ranks have ended, or it is too late for them.
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  void add(pid_t group) const;
  void remove(pid_t group) const;
  pid_t process() const { return process_; }

 private:
  int pipe_ = -1;
  pid_t process_ = -1;
};

}  // namespace tandem::launch
