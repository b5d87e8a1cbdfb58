// The command line of `launch`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/exit.h"

namespace tandem::launch {

struct Options {
  int ranks = 1;  ///< that this launcher starts
  int nodes = 1;
  int node_rank = 0;
  std::optional<std::string> master_addr;
  std::optional<std::uint16_t> master_port;
  int max_restarts = 0;
  std::optional<std::string> log_dir;
  double grace_s = 5;
  double stop_timeout_s = 300;

  std::string program;                 ///< its path, found in PATH where it was given without one
  std::vector<std::string> arguments;  ///< the first is the program's name as it was given

  int world_size() const { return ranks * nodes; }
  int first_rank() const { return ranks * node_rank; }
};

/// None where --help was asked for, which has been printed. Throws UsageError.
std::optional<Options> parse_command_line(int argc, const char* const* argv);

/// The path of a program that can be executed, as a shell finds it. Throws UsageError.
std::string find_program(const std::string& name);

}  // namespace tandem::launch
