// The training loop.
//
// Words: a window is what one update is computed from, up to accumulation-steps micro-steps of batch-size rows each.
// The window at an epoch's end may have fewer micro-steps, and its last one fewer rows; the loss is always the mean
// over the rows that it has.
#pragma once

#include "tandem/data/loader.h"
#include "tools/train/checkpoint.h"
#include "tools/train/data_source.h"
#include "tools/train/metrics.h"
#include "tools/train/progress.h"

namespace tandem::train {

class Trainer {
 public:
  /// All of these must outlive it. `checkpoints` may be null.
  Trainer(const Settings& settings, const DataSource& data, const Length& length, TrainingState& state,
          Metrics& metrics, Progress& progress, CheckpointFolder* checkpoints, const StopSignal& stop);

  /// Trains from where the state is to the end of the run, or to the update during which a signal came. Gradients of
  /// the last update are left in the model. Throws Error where the loss or the gradients' norm is no longer finite.
  void run();

  /// Whether the state is as it was evaluated last.
  bool is_evaluated() const { return evaluated_step_ == state_.step(); }

 private:
  bool is_finished() const { return state_.step() >= length_.total_steps || stop_.received(); }
  void run_epoch();
  void update(const data::Window& window, UpdateReport& report);
  void after_update(const UpdateReport& report);

  const Settings& settings_;
  const DataSource& data_;
  const Length length_;
  TrainingState& state_;
  Metrics& metrics_;
  Progress& progress_;
  CheckpointFolder* checkpoints_;
  const StopSignal& stop_;

  std::vector<nn::Variable> parameters_;
  data::Sampler sampler_;
  data::Loader loader_;
  std::int64_t evaluated_step_ = -1;
};

/// The number of the epoch that the last update belonged to, counted from 1; 0 before the first update.
std::int64_t epoch_number(const TrainingState& state);

}  // namespace tandem::train
