// Attempt, continued: the ways in which the ranks are asked to stop, and made to.
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "tools/launch/attempt.h"

namespace tandem::launch {
void Attempt::handle_wish_to_end(int number) {
  using Wish = core::Repeats::Wish;
  const Wish wish = wishes_to_end_.take();
  if (wish == Wish::repeat) return;
  if (wish == Wish::second) return escalation_.kill_now(Clock::now());
  was_asked_to_end_ = true;
  if (!has_failed_) {
    surroundings_.output.write_line(
        Stream::err, fmt::format("launch: signal {} ({}) was passed on to the ranks; a second one ends them at once",
                                 number, strsignal(number)));
    interrupt_by(number);
  }
  for (Rank& rank : ranks_) {
    if (!rank.is_running) continue;
    rank.kind = RankEnd::Kind::told;
    rank.process->send(number);
  }
}

void Attempt::interrupt_by(int signal) {
  interrupt({.code = kSignal + signal,
             .cause = fmt::format("ended by signal {} ({}), as were the ranks", signal, strsignal(signal)),
             .signal = signal});
}

void Attempt::interrupt(Interruption interruption) {
  interruption_ = std::move(interruption);
  const auto now = Clock::now();
  escalation_.kill_without_progress(Escalation::Seconds(options_.stop_timeout_s), now);
  next_look_ = now;
}

// What the ranks make of it is theirs; one that ends by it has been asked to stop.
void Attempt::pass_on(int number) {
  core::Repeats& repeats = number == SIGUSR1 ? first_user_signals_ : second_user_signals_;
  if (repeats.take() == core::Repeats::Wish::repeat) return;
  passed_on_ = number;
  for (const Rank& rank : ranks_) rank.process->send(number);
}

void Attempt::pause() {
  const auto begin = Clock::now();
  for (const Rank& rank : ranks_) rank.process->send_to_group(SIGSTOP);
  Signals::pause();
  for (const Rank& rank : ranks_) rank.process->send_to_group(SIGCONT);
  escalation_.postpone(Clock::now() - begin);
}

void Attempt::handle_lost_output() {
  const int error = surroundings_.output.error(Stream::out);
  if (error == 0 || has_failed_ || interruption_) return;
  interrupt(
      {.code = error == EPIPE ? kSignal + SIGPIPE : kFailed,
       .cause = fmt::format("stdout cannot be written any more ({}); the ranks were stopped", std::strerror(error)),
       .signal = SIGTERM,
       .is_signal_from_outside = false});
  send_to_groups(SIGTERM);
}

// Ranks that were asked to stop get time while they move. Of one that reports nothing, as a rank that is alone does
// not, computing counts: a fiftieth of a core at least.
void Attempt::look_at_progress() {
  if (!escalation_.waits_for_progress()) return;
  const double unit = std::max(options_.stop_timeout_s / 50, 0.001);
  std::string progress;
  for (const Rank& rank : ranks_) {
    const std::string reported = rank.is_running ? store_.progress(rank.number) : "ended";
    progress += reported.empty() ? fmt::format("{:.0f}", std::floor(rank.process->cpu_seconds() / unit)) : reported;
    progress += '\n';
  }
  escalation_.note_progress(progress, Clock::now());
}

void Attempt::stop_what_is_left() {
  const bool waits_for_progress = escalation_.waits_for_progress();
  const auto signal = escalation_.take_due(Clock::now());
  if (!signal) return;
  if (interruption_ && waits_for_progress)
    interruption_->cause +=
        fmt::format("; ranks that made no progress for {:g} s (--stop-timeout-s) were killed", options_.stop_timeout_s);
  send_to_groups(*signal);
}

void Attempt::send_to_groups(int signal) {
  for (Rank& rank : ranks_) {
    if (!rank.is_running) continue;
    if (rank.kind == RankEnd::Kind::by_itself) rank.kind = RankEnd::Kind::told;
    rank.process->send_to_group(signal);
  }
}

}  // namespace tandem::launch
