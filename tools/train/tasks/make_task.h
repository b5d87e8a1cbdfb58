// From settings and data to what is trained.
#pragma once

#include "tandem/train/task.h"
#include "tools/train/tasks/data_source.h"

namespace tandem::train {

/// The model that --model names, made for the data: with as many classes as that has, or to predict its masked tokens,
/// or pairs; with its first weights, and the loss that goes with it. Throws Error where model and data do not go
/// together.
std::unique_ptr<Task> make_task(const Settings& settings, const DataSource& data);

}  // namespace tandem::train
