#include "tools/launch/escalation.h"

#include <csignal>

namespace tandem::launch {
namespace {

constexpr std::chrono::milliseconds kAfterTerm{2000};

}  // namespace

void Escalation::terminate_after(Seconds grace, Clock::time_point now) {
  if (next_) return;
  signal_ = SIGTERM;
  next_ = now + std::chrono::duration_cast<Clock::duration>(grace);
}

void Escalation::kill_without_progress(Seconds limit, Clock::time_point now) {
  limit_ = std::chrono::duration_cast<Clock::duration>(limit);
  signal_ = SIGKILL;
  next_ = now + *limit_;
}

void Escalation::note_progress(const std::string& progress, Clock::time_point now) {
  if (!limit_ || progress == progress_) return;
  progress_ = progress;
  next_ = now + *limit_;
}

void Escalation::kill_now(Clock::time_point now) {
  limit_.reset();
  signal_ = SIGKILL;
  next_ = now;
}

void Escalation::postpone(Clock::duration pause) {
  if (next_) *next_ += pause;
}

std::optional<int> Escalation::take_due(Clock::time_point now) {
  if (!next_ || now < *next_) return std::nullopt;
  const int due = signal_;
  next_.reset();
  if (due == SIGTERM) {
    signal_ = SIGKILL;
    next_ = now + kAfterTerm;
  }
  return due;
}

}  // namespace tandem::launch
