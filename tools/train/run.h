// A whole run: open the data, make or load the state, train or evaluate, write what was asked for.
#pragma once

#include <functional>

#include "tandem/nn/module.h"
#include "tools/train/interruption.h"
#include "tools/train/settings/settings.h"
#include "tandem/train/stop_signal.h"

namespace tandem::train {

/// For whoever wants to be there at certain moments of a run: tests, which let ranks fail.
struct RunHooks {
  std::function<void(nn::Module& model, int rank)> before_training;
  std::function<void(int rank)> before_leaving;  ///< all is done, and the other ranks have not been told goodbye
};

/// Throws Error where it fails, distributed::PeerError where another rank did. A run that was asked to stop says in the
/// result where it stands.
RunEnd run(const Settings& settings, StopSignal& stop, const RunHooks& hooks = {});

}  // namespace tandem::train
