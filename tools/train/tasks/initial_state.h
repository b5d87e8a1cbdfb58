// What a run begins with: the model and its weights, the optimizer, the schedule, and how long it is.
#pragma once

#include <string>

#include "tandem/train/training_state.h"
#include "tools/train/settings/settings.h"
#include "tools/train/tasks/data_source.h"

namespace tandem::train {

/// How long a run is.
struct Length {
  std::int64_t steps_per_epoch = 0;
  std::int64_t total_steps = 0;
};

/// --epochs, --steps or both on `samples` training samples, a batch a rank and micro-step. Throws UsageError where that
/// is more than can be counted.
Length run_length(const Settings& settings, int ranks, std::int64_t samples);

struct InitialState {
  TrainingState state;
  std::string weights_from = {};  ///< of --from: the file, and newer ones that were passed over
  std::string left_out = {};      ///< of --init-weights, for the user to read
};

/// The beginning: `settings` are resolved. Throws Error where --init-weights cannot be read or does not fit, and where
/// the model does not fit the data.
InitialState initial_state(const Settings& settings, const DataSource& data, const Length& length);

}  // namespace tandem::train
