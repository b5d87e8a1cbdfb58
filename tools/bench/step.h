// `bench step`: how long a training step of a model takes, and on what.
#pragma once

#include <CLI/App.hpp>

namespace tandem::bench {

/// Adds the subcommand; it runs when the command line is parsed.
void add_step(CLI::App& app);

}  // namespace tandem::bench
