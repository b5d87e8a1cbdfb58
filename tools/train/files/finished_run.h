// What a run leaves for those who use its weights later: train --eval-only --from RUN, and the program predict.
//
// Beside settings and checkpoints a run folder has the words of its text, tokenizer.json, and the sizes of a BERT,
// model_config.json: the files that they came from may have moved since.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tandem/core/files/safetensors.h"
#include "tandem/nn/module.h"
#include "tools/train/settings/settings.h"
#include "tools/train/tasks/data_source.h"

namespace tandem::train {

/// Writes those two files into --out, if the run has any.
void keep_for_later(const Settings& settings, const DataSource& data, nn::Module& model);

/// `settings` as the run's config.json has them become those of a call that uses its weights: without what the run
/// began with, and with the words and sizes that its folder has. Those that belong to its data go, too, if `data`, the
/// call's own, is of another kind.
void adopt_run(const std::string& run, const std::optional<std::string>& data, Settings& settings);

/// Weights from a file, and what it says of them.
struct StoredWeights {
  std::string file;
  core::StateDict state;
  core::Metadata metadata;
  std::vector<std::string> damaged;  ///< newer checkpoints that were passed over: why, a line for each
};

/// Of the newest checkpoint of a run folder that is whole. Throws Error naming the folder if there is none.
StoredWeights weights_of_run(const std::string& run);
/// Of a file with weights, or of a folder with model.safetensors.
StoredWeights weights_of_file(const std::string& path);

/// The tensor of this name, without regard to a prefix "bert.", or null.
const core::Tensor* find_weight(const StoredWeights& weights, const std::string& name);
/// What the outputs of a classifier are called; empty if the file does not say.
std::vector<std::string> class_names(const StoredWeights& weights);
/// What the weights' shapes say of the model: its classes, the stem of a ResNet.
void fit_settings(const StoredWeights& weights, Settings& settings);
/// Throws Error if the run's classes are not the data's, in their order.
void check_class_names(const StoredWeights& weights, const Settings& settings, const DataSource& data);

}  // namespace tandem::train
