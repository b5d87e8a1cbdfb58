#include "tools/train/stop_signal.h"

#include <csignal>
#include <initializer_list>

namespace tandem::train {
namespace {

volatile std::sig_atomic_t received_signal = 0;

extern "C" void note_signal(int number) { received_signal = number; }

void install(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;  // once only; and no call into the system fails for it
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &action, nullptr);
}

}  // namespace

StopSignal::StopSignal() {
  received_signal = 0;
  install(note_signal);
}

StopSignal::~StopSignal() { install(SIG_DFL); }

int StopSignal::received() const { return received_signal; }

}  // namespace tandem::train
