// Weights from elsewhere, fitted to a model: what other programs call or leave out differently, and a head for another
// number of classes.
#pragma once

#include <string>

#include "tandem/core/state_dict.h"
#include "tandem/nn/module.h"

namespace tandem::models {

struct AdaptedWeights {
  core::StateDict state;
  std::string new_head = {};  ///< what is to begin anew and why, for the user to read; else ""
};

/// - The prefix "module.", which PyTorch's DistributedDataParallel puts before all names, is taken off.
/// - Counts of batches that PyTorch before 0.4.1 did not keep, num_batches_tracked, begin at 0.
/// - Parameters below `head`, such as "fc.", are left out if the file has none, or they are for another number of
///   classes: the model's stay as they begin.
AdaptedWeights adapt_weights(nn::Module& model, core::StateDict file, const std::string& head);

}  // namespace tandem::models
