// --summary: what a run would train, compute, hold in memory and send, before it does.
#pragma once

#include "tandem/train/training_state.h"
#include "tools/train/tasks/data_source.h"

namespace tandem::train {

/// Prints the layers with their multiply-adds (layers.h), the memory of a rank by kind, and which gradients travel
/// together. Runs three small forwards in training mode, which move the running statistics of batch norms.
void print_summary(const Settings& settings, const DataSource& data, const TrainingState& state);

}  // namespace tandem::train
