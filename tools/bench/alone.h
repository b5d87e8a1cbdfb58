// Subcommands that measure one process, and would not know of others beside it.
#pragma once

namespace tandem::bench {

/// Throws CLI::ValidationError if a launcher started this process as one of several: they would share the machine, and
/// each would print a table of its own. `advice`: what to do instead.
void check_is_alone(const char* subcommand, const char* advice);

}  // namespace tandem::bench
