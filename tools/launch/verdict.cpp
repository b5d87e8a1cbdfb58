#include "tools/launch/verdict.h"

#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include "tandem/distributed/fields.h"
#include "tools/exit.h"

namespace tandem::launch {
namespace {

int exit_code(const RankEnd& end) {
  if (end.kind == RankEnd::Kind::left_early) return 1;
  return end.ending.signal != 0 ? kSignal + end.ending.signal : end.ending.code;
}

// What to do, where the cause does not say it.
std::string advice(const RankEnd& end) {
  if (end.kind == RankEnd::Kind::left_early) return "; every rank must go on to the end of the run";
  if (end.kind == RankEnd::Kind::stalled) return "; they waited for it in vain";
  if (!end.last_error.empty()) return "";
  switch (end.ending.signal) {
    case 0: return fmt::format("; see its output above, marked [{}]", end.rank);
    case SIGKILL: return "; if nobody did that, memory may have run out (see dmesg)";
    case SIGSEGV:
    case SIGBUS:
    case SIGABRT:
    case SIGFPE:
    case SIGILL: return "; a core dump or a debugger shows where";
    default: return "";
  }
}

// What became of those that did not begin it.
std::string others(const std::vector<RankEnd>& ends, int world_size) {
  if (world_size == 1) return "";
  const bool any_told =
      std::any_of(ends.begin(), ends.end(), [](const RankEnd& end) { return end.kind == RankEnd::Kind::told; });
  return any_told ? "; the other ranks were stopped" : "; the other ranks have ended";
}

}  // namespace

int likely_order(const Ending& ending) {
  if (ending.signal == SIGPIPE) return 3;  // it wrote to somebody who had ended
  if (ending.signal != 0) return 1;
  if (ending.code == 0) return 0;  // others may have counted on it
  return ending.code == kPeerFailed ? 4 : 2;
}

bool RankEnd::is_failure() const {
  if (kind == Kind::left_early || kind == Kind::stalled) return true;
  return kind == Kind::by_itself && (ending.code != 0 || ending.signal != 0);
}

bool RankEnd::is_ended_by(int number) const {
  return ending.signal == number || (ending.signal == 0 && ending.code == kSignal + number);
}

bool RankEnd::is_echo() const { return kind == Kind::by_itself && ending.code == kPeerFailed; }

std::string RankEnd::cause() const {
  if (kind == Kind::left_early) return fmt::format("rank {} left before the end (exit code 0)", rank);
  if (kind == Kind::stalled) return fmt::format("rank {} is stopped (SIGSTOP)", rank);
  const std::string how = ending.signal != 0
                              ? fmt::format("was killed by signal {} ({})", ending.signal, strsignal(ending.signal))
                              : fmt::format("ended with exit code {}", ending.code);
  return fmt::format("rank {} {}{}{}", rank, how, last_error.empty() ? "" : ": ",
                     distributed::one_line(last_error, kMaxCause));
}

namespace {

// What the program itself said last, without its name.
std::string words_of(const RankEnd& end) {
  constexpr std::string_view kMark = ": error: ";
  const std::size_t at = end.last_error.find(kMark);
  return distributed::one_line(at == std::string::npos ? end.last_error : end.last_error.substr(at + kMark.size()),
                               kMaxCause);
}

// The lowest rank for which this holds.
template <class Predicate>
const RankEnd* first_rank(const std::vector<RankEnd>& ends, Predicate&& predicate) {
  const RankEnd* first = nullptr;
  for (const RankEnd& end : ends)
    if (predicate(end) && (!first || end.rank < first->rank)) first = &end;
  return first;
}

// The ranks know where the run stands, and what went wrong while they stopped.
std::string explain(const Interruption& interruption, const std::vector<RankEnd>& ends) {
  const auto has_failed = [&](const RankEnd& end) {
    return end.ending.signal == 0 && end.ending.code != 0 && end.ending.code != kPeerFailed &&
           !end.is_ended_by(interruption.signal);
  };
  if (const RankEnd* const failed = first_rank(ends, has_failed))
    return fmt::format("{}; {}", interruption.cause, failed->cause());
  const RankEnd* const stopped = first_rank(ends, [&](const RankEnd& end) {
    return end.ending.code == kSignal + interruption.signal && !end.last_error.empty();
  });
  if (!stopped) return interruption.cause;
  return interruption.is_signal_from_outside ? words_of(*stopped)
                                             : fmt::format("{}: {}", interruption.cause, words_of(*stopped));
}

}  // namespace

Verdict judge(const std::vector<RankEnd>& ends, int world_size, const std::optional<Interruption>& interruption,
              const std::optional<std::string>& known_cause) {
  if (interruption) return {.code = interruption->code, .line = explain(*interruption, ends)};
  const auto is_failure = [](const RankEnd& end) { return end.is_failure(); };
  const auto own =
      std::find_if(ends.begin(), ends.end(), [&](const RankEnd& end) { return end.is_failure() && !end.is_echo(); });
  if (own != ends.end())
    return {.code = exit_code(*own), .line = own->cause() + others(ends, world_size) + advice(*own)};
  const auto echo = std::find_if(ends.begin(), ends.end(), is_failure);
  if (known_cause)
    return {.code = kPeerFailed, .line = distributed::one_line(*known_cause, kMaxCause) + others(ends, world_size)};
  if (echo == ends.end()) return {};
  return {.code = kPeerFailed, .line = echo->cause() + others(ends, world_size) + advice(*echo)};
}

}  // namespace tandem::launch
