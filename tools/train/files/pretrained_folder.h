// A folder as Hugging Face's save_pretrained leaves it: config.json, model.safetensors, and the tokenizer's files
// (data/text/tokenizer_files.h).
#pragma once

#include <optional>
#include <string>

#include "tandem/models/pretrained.h"

namespace tandem::train {

using models::kConfigFile;
using models::kWeightsFile;

/// The file that `path`, if it is a folder, holds under `name`; else none.
std::optional<std::string> file_in_folder(const std::optional<std::string>& path, const char* name);

}  // namespace tandem::train
