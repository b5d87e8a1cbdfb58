#include "tandem/train/forced_end.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "tandem/core/start_thread.h"

namespace tandem::train {

ForcedEnd::ForcedEnd(distributed::Watch& watch, std::chrono::milliseconds grace)
    : grace_(grace), thread_(core::start_thread("that watches the others", [this] {
        return std::jthread([this](const std::stop_token& stop) { wait(stop); });
      })) {
  registration_ = watch.on_failure([this](const distributed::Failure& failure) {
    const std::lock_guard lock(mutex_);
    cause_ = failure.cause.empty() ? "another rank failed" : failure.cause;
    changed_.notify_all();
  });
}

ForcedEnd::~ForcedEnd() { registration_.reset(); }

void ForcedEnd::wait(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait(lock, stop, [this] { return !cause_.empty(); })) return;
  if (changed_.wait_for(lock, stop, grace_, [] { return false; }) || stop.stop_requested()) return;
  std::string line = fmt::format("train: error: {}\n", cause_);
  std::replace(line.begin(), line.end() - 1, '\n', ' ');
  std::fputs(line.c_str(), stderr);
  _exit(3);
}

}  // namespace tandem::train
