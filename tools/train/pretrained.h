// Weights from elsewhere and for elsewhere: --init-weights, --save-model. Both may be a folder (pretrained_folder.h).
#pragma once

#include <string>

#include "tandem/nn/module.h"
#include "tools/train/data_source.h"
#include "tools/train/settings.h"

namespace tandem::train {

/// Loads what --init-weights names into the model. A head that is missing or for another number of classes is left as
/// it began, as are a BERT's other heads; everything else must be there under PyTorch's names (adapted_weights.h).
/// Returns what was left out, for the user to read, or "". Throws Error naming the file if it does not fit, or if a new
/// head would be evaluated.
std::string load_initial_weights(const Settings& settings, nn::Module& model);

/// Writes a BERT into the folder, which is made where it is missing: each file whole or not at all. The vocabulary is
/// the data's, else that of --init-weights; where there is neither, one that lies there from before is removed.
void save_pretrained(const std::string& folder, const Settings& settings, const DataSource& data, nn::Module& model);

}  // namespace tandem::train
