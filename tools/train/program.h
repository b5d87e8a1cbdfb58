// The program `train` as a function.
#pragma once

#include "tools/train/run.h"

namespace tandem::train {

/// Parses, runs, prints what failed as the last line of stderr, and returns the exit code: 0 done, 1 failed, 2 wrong
/// usage, 3 another rank failed, 128 + N ended by signal N.
int train_main(int argc, char** argv, const RunHooks& hooks = {});

}  // namespace tandem::train
