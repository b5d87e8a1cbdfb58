// `bench step`: how long a training step of a model takes, and on what.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <string>

#include "tools/bench/report.h"
#include "tools/bench/training_step.h"

namespace tandem::bench {

/// Adds the subcommand; it runs when the command line is parsed.
void add_step(CLI::App& app);

/// What is timed, with nothing left open.
struct StepSettings {
  WorkloadSettings workload;
  OptimizerSettings optimizer;
  std::int64_t steps = 0, warmup = 0;
  int threads = 1;
  bool operators = false;
  std::string json;
};

/// The effective settings: for people, and as they begin every report.
void print_start(const StepSettings& settings, const Workload& workload, int ranks = 1);
Json describe_step(const StepSettings& settings);

/// What the wrapper costs: of one rank, which sends nothing, hooks, statistics and gradients in buckets; of several,
/// which form one run whose first rank reports, the all-reduce too.
void run_beside_ddp(const StepSettings& settings);

}  // namespace tandem::bench
