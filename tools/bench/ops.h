// `bench ops`: each operator beside what the machine would allow.
#pragma once

#include <CLI/App.hpp>

namespace tandem::bench {

/// Adds the subcommand; it runs when the command line is parsed.
void add_ops(CLI::App& app);

}  // namespace tandem::bench
