// What a classifier's outputs are called. Saved with its weights, so that a program that predicts can name them.
#pragma once

#include "tandem/core/files/safetensors.h"
#include "tools/train/settings/settings.h"
#include "tools/train/tasks/data_source.h"

namespace tandem::train {

/// In the metadata of files of weights and of checkpoints: a JSON array of strings, one for each output in its order.
inline constexpr const char* kClassesKey = "classes";

/// {kClassesKey: names} of data whose classes have names, else nothing. Outputs beyond those (--classes) are called by
/// their numbers.
core::Metadata class_names_metadata(const Settings& settings, const DataSource& data);

}  // namespace tandem::train
