// The table that a run begins with: its effective settings, in a few lines.
#pragma once

#include <filesystem>
#include <optional>

#include "tools/train/data_source.h"
#include "tools/train/ranks.h"
#include "tools/train/training_state.h"

namespace tandem::train {

/// `checkpoint` is what the run was resumed from.
void print_overview(const Settings& settings, const Ranks& ranks, const DataSource& data, const Length& length,
                    const TrainingState& state, const std::optional<std::filesystem::path>& checkpoint);

}  // namespace tandem::train
