// `bench allreduce`: time of all-reduce by size, beside Gloo's own.
#pragma once

#include <CLI/App.hpp>

namespace tandem::bench {

/// Adds the subcommand; it runs one rank when the command line is parsed.
void add_allreduce(CLI::App& app);

}  // namespace tandem::bench
