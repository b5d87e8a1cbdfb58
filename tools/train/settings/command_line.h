// From the command line to settings: flags win over --config, --config over defaults.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/train/settings/settings.h"

namespace tandem::train {

/// The settings of this call, resolved. None where only help was asked for, which is then printed.
/// Throws UsageError of one line: the flag, its value, what is allowed.
std::optional<Settings> parse_command_line(int argc, const char* const* argv);

/// The settings of the run in a folder that --out made, for a call that uses its weights; not resolved
/// (finished_run.h). Throws UsageError if it is no such folder.
void read_run(const std::string& run, Settings& settings);

// In config.json beside the settings:
/// Where the run writes, by the flags' names. --config reads them only if the call goes on with that run, by --resume.
inline constexpr const char* kOutputs = "outputs";
/// What the run is beside its settings: ranks, global batch, threads, versions. --config sets nothing from them.
inline constexpr const char* kFacts = "facts";
/// Among the facts: which settings nobody chose, since they follow from others. --config leaves them open again.
inline constexpr const char* kDerived = "derived";

/// Every setting of a run by its flag's name, in the order of --help, and its outputs: what --config reads.
nlohmann::ordered_json to_json(const Settings& settings);

/// "--batch-size 64": what must be the same on all ranks of a run.
std::vector<std::string> settings_of_run(const Settings& settings);

}  // namespace tandem::train
