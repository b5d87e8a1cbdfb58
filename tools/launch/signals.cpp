#include "tools/launch/signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tandem/core/error.h"

namespace tandem::launch {

Signals::Signals() {
  std::signal(SIGCHLD, SIG_DFL);  // where it was ignored, nobody could wait for children
  sigset_t heard = blocked_.stops();
  for (const int number : {SIGQUIT, SIGTSTP, SIGCHLD})
    if (!core::is_ignored(number)) sigaddset(&heard, number);
  sigset_t blocked = heard;
  sigaddset(&blocked, SIGTTOU);  // the terminal takes what a launcher in the background prints
  pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
  fd_ = signalfd(-1, &heard, SFD_NONBLOCK | SFD_CLOEXEC);
  if (fd_ < 0) core::fail("cannot listen to signals: {}", std::strerror(errno));
}

Signals::~Signals() { close(fd_); }

Signals::Received Signals::read() {
  Received received;
  for (signalfd_siginfo info{}; ::read(fd_, &info, sizeof info) == sizeof info;) {
    switch (const int number = static_cast<int>(info.ssi_signo)) {
      case SIGCHLD: received.child_ended = true; break;
      case SIGTSTP: received.wants_pause = true; break;
      case SIGUSR1:
      case SIGUSR2: received.to_pass_on.push_back(number); break;
      default: received.wishes_to_end.push_back(number);
    }
  }
  return received;
}

void Signals::pause() {
  sigset_t pause;
  sigemptyset(&pause);
  sigaddset(&pause, SIGTSTP);
  raise(SIGTSTP);
  pthread_sigmask(SIG_UNBLOCK, &pause, nullptr);  // here it pauses
  pthread_sigmask(SIG_BLOCK, &pause, nullptr);
}

}  // namespace tandem::launch
