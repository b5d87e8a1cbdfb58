// What training changes: the model, the optimizer's memory, the schedule's count, and how far the data has been read.
//
// It is what a checkpoint holds (checkpoint.h); with the seed it determines all that follows.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tandem/data/sampler.h"
#include "tandem/nn/module.h"
#include "tandem/optim/lr_schedule.h"
#include "tandem/optim/optimizer.h"
#include "tools/train/settings/settings.h"
#include "tools/train/tasks/data_source.h"
#include "tools/train/tasks/task.h"

namespace tandem::train {

/// How long a run is.
struct Length {
  std::int64_t steps_per_epoch = 0;
  std::int64_t total_steps = 0;
};

/// --epochs, --steps or both on `samples` training samples, a batch a rank and micro-step. Throws UsageError where that
/// is more than can be counted.
Length run_length(const Settings& settings, int ranks, std::int64_t samples);

struct TrainingState {
  std::unique_ptr<Task> task;
  std::string weights_from = {};  ///< of --from: the file, and newer ones that were passed over
  std::string left_out;           ///< of --init-weights, for the user to read
  std::unique_ptr<optim::Optimizer> optimizer;
  std::unique_ptr<optim::LrSchedule> schedule;
  data::SamplerPosition position;    ///< of the next micro-step
  std::int64_t evaluated_step = -1;  ///< after which update it was evaluated last

  nn::Module& model() const { return task->model(); }
  /// Updates made so far.
  std::int64_t step() const { return schedule->step(); }
  std::uint32_t epoch() const { return position.epoch; }
  /// Whether it is as it was evaluated last.
  bool is_evaluated() const { return evaluated_step == step(); }
};

/// The number of the epoch that the last update belonged to, counted from 1; 0 before the first update.
std::int64_t epoch_number(const TrainingState& state);

/// Throws distributed::SharedError naming a tensor of the model or the optimizer that holds values that are not finite:
/// what the last update did shows in no loss any more.
void check_finite(const TrainingState& state);

/// The beginning: `settings` are resolved. Throws Error where --init-weights cannot be read or does not fit, and where
/// the model does not fit the data.
TrainingState initial_state(const Settings& settings, const DataSource& data, const Length& length);

}  // namespace tandem::train
