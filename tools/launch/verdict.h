// From how the ranks ended to what the launcher says and returns.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/launch/rank_process.h"

namespace tandem::launch {

/// Bytes of a cause in what is printed.
constexpr std::size_t kMaxCause = 1000;

/// Less for what is more likely a cause than what follows from it.
int likely_order(const Ending& ending);

/// One rank's end.
struct RankEnd {
  enum class Kind : std::uint8_t {
    by_itself,
    left_early,  ///< code 0, though others counted on it
    stalled,     ///< stopped by a signal, and killed by the launcher because others waited for it
    told,        ///< after the launcher told it to end: no failure
  };

  int rank = 0;
  Ending ending;
  Kind kind = Kind::by_itself;
  std::string last_error;  ///< its last line on stderr, "train: error: ...", or empty

  bool is_failure() const;
  /// Of a failure that comes from another rank's.
  bool is_echo() const;
  /// By this signal, or in good order after it: exit code 128 + signal.
  bool is_ended_by(int signal) const;
  /// "rank 1 was killed by signal 9 (Killed)".
  std::string cause() const;
};

/// What ended the run from outside: a signal to the launcher, or its output gone.
struct Interruption {
  int code = 1;
  std::string cause;
  int signal = 0;                      ///< what the ranks got
  bool is_signal_from_outside = true;  ///< else `cause` says why they got it
};

struct Verdict {
  int code = 0;
  std::string line;            ///< empty where all went well
  bool is_end_wished = false;  ///< somebody asked for the end, whether it was a failure before or not
};

/// `ends` in the order in which they came; `known_cause`: the first failure in the store, which may be another node's.
Verdict judge(const std::vector<RankEnd>& ends, int world_size, const std::optional<Interruption>& interruption,
              const std::optional<std::string>& known_cause);

}  // namespace tandem::launch
