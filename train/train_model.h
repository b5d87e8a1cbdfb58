// A whole training run in one call, for programs with a model and data of their own: it begins or resumes, trains,
// evaluates, writes metrics and checkpoints, stops when it is asked to, and ends together with the other ranks.
//
// What it is made of can be used one by one as well: Ranks, TrainingState, Trainer, and listeners such as Metrics.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tandem/train/listener.h"
#include "tandem/train/ranks.h"
#include "tandem/train/stop_signal.h"
#include "tandem/train/trainer.h"

namespace tandem::train {

struct TrainModelOptions {
  TrainerOptions trainer;
  /// Rank 0 keeps metrics.jsonl and checkpoints/ there. If checkpoints are there already, the run resumes from the
  /// newest one that is whole. Empty: nothing is kept.
  std::filesystem::path out = {};
  /// What this run must have in common with the one that it resumes, by a name for messages: {"model", "3 layers"}. The
  /// number of ranks and of samples, batch sizes and the seed are always compared.
  std::map<std::string, std::string> identity = {};
  std::string progress = "auto";          ///< the mode of Progress, on stdout of rank 0
  std::vector<Listener*> listeners = {};  ///< the caller's own
};

struct TrainModelResult {
  std::optional<Evaluation> evaluation = {};  ///< of the end; none if the run stopped before
  int stopped_by = 0;                         ///< the signal that stopped it, on any rank; 0: all updates were made
};

/// Collective; the ranks leave their world at its end. All arguments but the options must outlive it. Throws Error if
/// the run cannot go on, distributed::PeerError if another rank failed; then the other ranks end, too.
TrainModelResult train_model(const TrainModelOptions& options, Ranks& ranks, TrainingState& state, StopSignal& stop);

/// The whole of a main function: makes the StopSignal, which must be the first thing in a process, and runs `body`.
/// Returns the exit code: 0 done, 128 + N stopped by signal N; 1 for an exception and 3 for one that tells of another
/// rank's failure, after one line on stderr, "PROGRAM: error: CAUSE".
int run_program(const char* program, const std::function<TrainModelResult(StopSignal&)>& body);

}  // namespace tandem::train
