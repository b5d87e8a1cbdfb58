#include "tandem/core/process/blocked_signals.h"

#include <initializer_list>

namespace tandem::core {
namespace {

constexpr std::initializer_list<int> kStops{SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
constexpr std::initializer_list<int> kNotBlocked{SIGSEGV, SIGBUS,  SIGFPE,  SIGILL,  SIGABRT, SIGTRAP, SIGSYS,
                                                 SIGQUIT, SIGXCPU, SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT};

}  // namespace

bool is_ignored(int signal) {
  struct sigaction action {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

BlockedSignals::BlockedSignals()
    : sigpipe_before_(std::signal(SIGPIPE, SIG_IGN)), sigxfsz_before_(std::signal(SIGXFSZ, SIG_IGN)) {
  sigemptyset(&stops_);
  for (const int number : kStops)
    if (!is_ignored(number)) sigaddset(&stops_, number);
  sigset_t blocked;
  sigfillset(&blocked);
  for (const int number : kNotBlocked) sigdelset(&blocked, number);
  pthread_sigmask(SIG_BLOCK, &blocked, &before_);
}

BlockedSignals::~BlockedSignals() {
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  std::signal(SIGXFSZ, sigxfsz_before_);
  std::signal(SIGPIPE, sigpipe_before_);
}

sigset_t BlockedSignals::for_children() const {
  sigset_t mask = before_;
  for (const int number : kStops) sigdelset(&mask, number);
  for (const int number : {SIGQUIT, SIGCHLD, SIGPIPE}) sigdelset(&mask, number);
  return mask;
}

}  // namespace tandem::core
