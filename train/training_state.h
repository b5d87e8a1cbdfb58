// What training changes: the model, the optimizer's memory, the schedule's count, and how far the data has been read.
//
// It is what a checkpoint holds (checkpoint.h); with the seed it determines all that follows.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tandem/data/sampler.h"
#include "tandem/nn/module.h"
#include "tandem/optim/lr_schedule.h"
#include "tandem/optim/optimizer.h"
#include "tandem/train/task.h"

namespace tandem::train {

struct TrainingState {
  std::unique_ptr<Task> task;
  std::unique_ptr<optim::Optimizer> optimizer = {};
  std::unique_ptr<optim::LrSchedule> schedule = {};
  data::SamplerPosition position = {};  ///< of the next micro-step
  std::int64_t evaluated_step = -1;     ///< after which update it was evaluated last

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
/// what the last update did shows in no loss any more. `advice` ends the message.
void check_finite(const TrainingState& state, const std::string& advice);

/// Parameters that are trained, in the model's order.
std::vector<nn::Variable> trained_parameters(const nn::Module& model);

}  // namespace tandem::train
