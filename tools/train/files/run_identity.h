// What a run of the program is, for its checkpoints.
#pragma once

#include "tandem/train/checkpoint.h"
#include "tools/train/settings/settings.h"
#include "tools/train/tasks/data_source.h"

namespace tandem::train {

RunIdentity run_identity(const Settings& settings, int ranks, const DataSource& data);

}  // namespace tandem::train
