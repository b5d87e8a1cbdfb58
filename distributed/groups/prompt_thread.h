// A thread that feeds the wire computes little, and each time that it waits for a core which computes the wire is idle.
#pragma once

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tandem::distributed {

/// While it lives, this thread, and threads that it starts, run before others as soon as they have something to do.
/// Where the process may not do that (it needs CAP_SYS_NICE, or a limit of RLIMIT_NICE), nothing changes.
class PromptThread {
 public:
  PromptThread() { setpriority(PRIO_PROCESS, id(), before_ - kAhead); }
  ~PromptThread() { setpriority(PRIO_PROCESS, id(), before_); }
  PromptThread(const PromptThread&) = delete;
  PromptThread& operator=(const PromptThread&) = delete;

 private:
  static constexpr int kAhead = 10;

  // Linux keeps a priority for each thread, and takes its number for a process's.
  static id_t id() { return static_cast<id_t>(syscall(SYS_gettid)); }

  int before_ = getpriority(PRIO_PROCESS, id());
};

}  // namespace tandem::distributed
