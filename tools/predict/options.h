// The command line of `predict`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/train/settings/settings.h"

namespace tandem::predict {

struct Options {
  train::Settings settings;  ///< of the run, or of --weights; not resolved
  std::optional<std::string> from, weights;
  std::vector<std::string> inputs;
  std::optional<std::string> output;
  std::int64_t top = 1;
  bool truncate = false;
};

/// None if only help was asked for, which is then printed. Throws UsageError.
std::optional<Options> parse_command_line(int argc, const char* const* argv);

}  // namespace tandem::predict
