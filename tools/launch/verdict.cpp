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

Verdict judge(const std::vector<RankEnd>& ends, int world_size, const std::optional<Interruption>& interruption,
              const std::optional<std::string>& known_cause) {
  if (interruption) return {interruption->code, interruption->cause, true};
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
