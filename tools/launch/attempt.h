// One start of all ranks of this machine, from their first byte to the end of the last of them.
//
// One loop polls signals, the ranks' pipes and the launcher's own output. Three things end an attempt: all ranks have
// ended; one has failed, and the others get a grace period, then SIGTERM, then SIGKILL; or the launcher was asked to
// end, and the ranks get time while they make progress.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "tandem/core/process/repeats.h"
#include "tools/launch/escalation.h"
#include "tools/launch/guard.h"
#include "tools/launch/options.h"
#include "tools/launch/output.h"
#include "tools/launch/rank_output.h"
#include "tools/launch/rank_process.h"
#include "tools/launch/run_store.h"
#include "tools/launch/signals.h"
#include "tools/launch/verdict.h"

namespace tandem::launch {

/// What lives as long as the launcher.
struct Surroundings {
  Guard& guard;
  Signals& signals;
  Output& output;
};

class Attempt {
 public:
  /// Starts the ranks; `restart`: how often that has been done before. Throws Error.
  Attempt(const Options& options, int restart, RunStore& store, const Surroundings& surroundings);

  /// Returns when all ranks have ended.
  Verdict run();

 private:
  using Clock = std::chrono::steady_clock;

  struct Rank {
    int number;
    RankOutput output;
    std::unique_ptr<RankProcess> process;
    bool is_running = true;
    RankEnd::Kind kind = RankEnd::Kind::by_itself;
  };

  void start();
  void wait_for_events();
  void handle_wish_to_end(int number);
  void interrupt_by(int signal);
  void interrupt(Interruption interruption);
  void pass_on(int number);
  void pause();
  void handle_lost_output();
  void take_endings();
  void handle_end(Rank& rank, const Ending& ending);
  void fail();
  void check_early_leavers();
  void check_other_nodes();
  void name_stalled();
  void look_at_progress();
  void stop_what_is_left();
  void send_to_groups(int signal);

  int running() const;
  /// Milliseconds to wait for events; -1: for ever.
  int timeout() const;

  const Options& options_;
  int restart_;
  RunStore& store_;
  Surroundings surroundings_;
  std::vector<Rank> ranks_;
  std::vector<RankEnd> ends_;  // in the order in which they came

  std::optional<Interruption> interruption_;
  bool was_asked_to_end_ = false;  // also after a failure, which then is no reason to start again
  core::Repeats wishes_to_end_, first_user_signals_, second_user_signals_;
  int passed_on_ = 0;  // SIGUSR1 or SIGUSR2, the last one
  std::optional<std::string> foreign_cause_;
  bool has_failed_ = false;
  Escalation escalation_;
  std::optional<Clock::time_point> next_look_;  // at what no event tells of: goodbyes, other nodes, beats
};

}  // namespace tandem::launch
