// The life of a run: the store, the ranks, and the ranks again where they failed and that is wanted.
#pragma once

#include "tools/launch/options.h"

namespace tandem::launch {

/// Prints the settings, runs, and returns the exit code; where that is not 0, the last line on stderr says why. Throws
/// Error where nothing could be started.
int launch(const Options& options);

}  // namespace tandem::launch
