// A whole run: open the data, make or load the state, train or evaluate, write what was asked for.
#pragma once

#include "tools/train/settings.h"

namespace tandem::train {

/// Throws Error where it fails. The number of the signal that ended it before its time, else 0.
int run(const Settings& settings);

}  // namespace tandem::train
