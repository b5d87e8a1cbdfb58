// A write to a connection that the other side has closed is an error to be handled, not a signal that ends the process.
#pragma once

#include <pthread.h>

#include <csignal>
#include <ctime>

namespace tandem::distributed {

/// Blocks SIGPIPE for this thread, and threads that it starts, while it lives.
class NoSigpipe {
 public:
  NoSigpipe() {
    sigemptyset(&blocked_);
    sigaddset(&blocked_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &blocked_, &before_);
  }
  ~NoSigpipe() {
    const timespec no_time{};
    if (sigismember(&before_, SIGPIPE) == 0) sigtimedwait(&blocked_, nullptr, &no_time);  // one may be pending
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;

 private:
  sigset_t blocked_, before_;
};

}  // namespace tandem::distributed
