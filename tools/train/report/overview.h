// The table that a run begins with: its effective settings, in a few lines.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tandem/train/ranks.h"
#include "tools/train/tasks/initial_state.h"

namespace tandem::train {

/// What a run goes on from.
struct Resumed {
  std::filesystem::path checkpoint;
  std::vector<std::string> damaged;  ///< newer checkpoints that were passed over: what is wrong with each
  std::vector<std::string> changed;  ///< settings that are others than before: "--lr 0.1, now 0.01"
};

void print_overview(const Settings& settings, const Ranks& ranks, const DataSource& data, const Length& length,
                    const InitialState& begun, const std::optional<Resumed>& resumed);

}  // namespace tandem::train
