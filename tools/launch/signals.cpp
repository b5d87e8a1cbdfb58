#include "tools/launch/signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tandem/core/error.h"

namespace tandem::launch {

Signals::Signals() {
  std::signal(SIGCHLD, SIG_DFL);  // where it was ignored, nobody could wait for children
  std::signal(SIGPIPE, SIG_IGN);
  struct sigaction hangup {};
  sigaction(SIGHUP, nullptr, &hangup);
  sigset_t heard;
  sigemptyset(&heard);
  for (const int number : {SIGINT, SIGTERM, SIGQUIT, SIGUSR1, SIGUSR2, SIGCHLD}) sigaddset(&heard, number);
  if (hangup.sa_handler != SIG_IGN) sigaddset(&heard, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &heard, &original_mask_);
  // A starter that blocks these would make the ranks deaf.
  for (const int number : {SIGINT, SIGTERM, SIGQUIT, SIGUSR1, SIGUSR2, SIGHUP, SIGCHLD, SIGPIPE})
    sigdelset(&original_mask_, number);
  fd_ = signalfd(-1, &heard, SFD_NONBLOCK | SFD_CLOEXEC);
  if (fd_ < 0) core::fail("cannot listen to signals: {}", std::strerror(errno));
}

Signals::~Signals() { close(fd_); }

Signals::Received Signals::read() {
  Received received;
  for (signalfd_siginfo info{}; ::read(fd_, &info, sizeof info) == sizeof info;) {
    if (info.ssi_signo == SIGCHLD) {
      received.child_ended = true;
    } else if (info.ssi_signo == SIGUSR1 || info.ssi_signo == SIGUSR2) {
      received.to_pass_on.push_back(static_cast<int>(info.ssi_signo));
    } else {
      received.wishes_to_end.push_back(static_cast<int>(info.ssi_signo));
    }
  }
  return received;
}

}  // namespace tandem::launch
