// Weights from elsewhere and for elsewhere: --init-weights, --save-model. Both may be a folder (pretrained_folder.h).
#pragma once

#include <string>

#include "tandem/core/files/safetensors.h"
#include "tandem/nn/module.h"
#include "tools/train/settings/settings.h"
#include "tools/train/tasks/data_source.h"

namespace tandem::train {

/// Loads what --init-weights names into the model. A head that is missing or for another number of classes is left as
/// it began, as are a BERT's other heads; everything else must be there under PyTorch's names (models/pretrained.h).
/// Returns what was left out, for the user to read, or "". Throws Error naming the file if it does not fit, was trained
/// with other words than the data's, or lacks what --eval-only would evaluate.
std::string load_initial_weights(const Settings& settings, const DataSource& data, nn::Module& model);

/// The same with weights that are read already; `where` is for messages, "--init-weights FILE".
std::string load_weights(const Settings& settings, const std::string& where, const core::StateDict& weights,
                         nn::Module& model);

/// What weights are saved with: the names of classes (class_names.h), and "vocabulary", a hash of the words of the
/// embeddings, if the data are text.
core::Metadata weights_metadata(const Settings& settings, const DataSource& data);

/// Writes a BERT into the folder, which is made where it is missing: each file whole or not at all. The vocabulary is
/// the data's, else that of --init-weights; if there is neither, one that lies there from before is removed.
void save_pretrained(const std::string& folder, const Settings& settings, const DataSource& data, nn::Module& model);

}  // namespace tandem::train
