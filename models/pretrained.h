// Trained weights of our models, from files and for files: safetensors with the names of PyTorch, torchvision and
// Hugging Face.
#pragma once

#include <filesystem>
#include <string>

#include "tandem/core/files/safetensors.h"
#include "tandem/nn/module.h"

namespace tandem::models {

/// What Hugging Face's save_pretrained calls its files.
inline constexpr const char *kConfigFile = "config.json", *kWeightsFile = "model.safetensors";

/// What a model did not get from a file.
struct LoadedWeights {
  /// Which layer keeps its first values, and why: "fc is new, for 3 classes; the file's is for 1000". Else "".
  std::string new_head = {};
  /// BERTs: heads and poolers that only the model has, or only the file.
  nn::NameDifference heads = {};

  /// Both, for a reader; "" if the model got everything.
  std::string left_out() const;
};

/// Loads weights, on whatever device, into a model of this folder. Names and heads may differ as adapted_weights.h
/// says, and for BERTs as bert_weights.h says; BERTs may also lack heads that the file has, and have others. Everything
/// else must be there. Throws Error that names what is missing, unexpected or of another shape; then the model is
/// unchanged.
LoadedWeights load_weights(nn::Module& model, const core::StateDict& weights);
/// The same from a file, or from a folder that holds kWeightsFile. Errors name the file.
LoadedWeights load_weights(nn::Module& model, const std::filesystem::path& path);

/// The configuration of a BERT as it is now, with Hugging Face's name of its class. Throws Error for other models.
std::string model_config_json(nn::Module& model);

/// Writes a BERT into a folder that Hugging Face's from_pretrained reads: kConfigFile and kWeightsFile, each whole or
/// not at all. The folder is made if it is missing. Its words are not the model's: data::save_tokenizer() adds them.
void save_pretrained(const std::filesystem::path& folder, nn::Module& model, core::Metadata metadata = {});

}  // namespace tandem::models
