// How many compute threads a process gets: what is asked for, else its share of the processors that it may use.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace tandem::core {

/// How much processor time the control groups of this process (version 1 or 2, and all groups around them) leave it, in
/// processors: 1.5 of "150000 100000". None: as much as there is. `root`: where /proc and /sys are looked for.
std::optional<double> processor_quota(const std::filesystem::path& root = "/");

/// Processors that this process may use: those that it is bound to, and no more than its quota, rounded; at least 1.
int available_processors(const std::filesystem::path& root = "/");

/// Threads of one of `ranks` processes on this machine: `asked` (a flag) if there is one, else OMP_NUM_THREADS (the
/// first number of a list) if it is a number >= 1, else an equal share of `processors`; at least 1.
using Variable = std::function<std::optional<std::string>(const char* name)>;
int threads_of_rank(const std::optional<std::int64_t>& asked, int ranks, int processors, const Variable& environment);
/// The same on this machine.
int threads_of_rank(const std::optional<std::int64_t>& asked, int ranks);

}  // namespace tandem::core
