// A folder as Hugging Face's save_pretrained leaves it: config.json, model.safetensors, vocab.txt,
// tokenizer_config.json.
#pragma once

#include <optional>
#include <string>

namespace tandem::train {

inline constexpr const char* kConfigFile = "config.json";
inline constexpr const char* kWeightsFile = "model.safetensors";
inline constexpr const char* kVocabularyFile = "vocab.txt";
inline constexpr const char* kTokenizerFile = "tokenizer_config.json";

/// The file that `path`, if it is a folder, holds under `name`; else none.
std::optional<std::string> file_in_folder(const std::optional<std::string>& path, const char* name);

/// Whether the text of a tokenizer_config.json says that the vocabulary tells upper from lower case. Throws Error
/// naming the file where it is no JSON object.
bool says_cased(const std::string& file);

/// The tokenizer_config.json of a vocabulary.
std::string tokenizer_config(bool cased);

}  // namespace tandem::train
