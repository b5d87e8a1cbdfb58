#include "tandem/train/stop_signal.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cstring>

#include "tandem/core/start_thread.h"

namespace tandem::train {
namespace {

// Sent to the thread alone, to end it.
const int kWake = SIGRTMIN;

// Does not wait for a reader that has stopped to read.
void print_error(const std::string& line) {
  pollfd entry{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
  if (poll(&entry, 1, 0) > 0 && write(STDERR_FILENO, line.data(), line.size()) < 0) return;
}

}  // namespace

StopSignal::StopSignal()
    : thread_(core::start_thread("that waits for signals", [this] {
        return std::jthread([this](const std::stop_token& stop) { listen(stop); });
      })) {}

StopSignal::~StopSignal() {
  thread_.request_stop();
  pthread_kill(thread_.native_handle(), kWake);
}

void StopSignal::listen(const std::stop_token& stop) {
  sigset_t heard = blocked_.stops();
  sigaddset(&heard, kWake);
  for (core::Repeats repeats;;) {
    const int signal = sigwaitinfo(&heard, nullptr);
    if (stop.stop_requested()) return;
    if (signal < 0 || signal == kWake) continue;
    if (!is_deferred_) end_process(signal, "before training began");
    const core::Repeats::Wish wish = repeats.take();
    if (wish == core::Repeats::Wish::second) end_process(signal, "a second time, so at once: no checkpoint was made");
    int none = 0;
    received_.compare_exchange_strong(none, signal);
  }
}

// Who waits for this process learns that the signal ended it.
void StopSignal::end_process(int signal, const char* when) {
  print_error(fmt::format("train: error: interrupted by signal {} ({}) {}\n", signal, strsignal(signal), when));
  std::signal(signal, SIG_DFL);
  sigset_t this_one;
  sigemptyset(&this_one);
  sigaddset(&this_one, signal);
  pthread_sigmask(SIG_UNBLOCK, &this_one, nullptr);
  raise(signal);
  _exit(128 + signal);
}

void StopSignal::lose_output(const std::string& what, int error) {
  const std::lock_guard lock(mutex_);
  if (!lost_output_) lost_output_ = {.what = what, .error = error};
  int none = 0;
  received_.compare_exchange_strong(none, SIGPIPE);
}

std::optional<LostOutput> StopSignal::lost_output() const {
  const std::lock_guard lock(mutex_);
  return lost_output_;
}

}  // namespace tandem::train
