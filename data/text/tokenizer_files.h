// The files that a tokenizer comes in: tokenizer.json alone, or vocab.txt; beside either a tokenizer_config.json.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "tandem/data/text/tokenizer_json.h"

namespace tandem::data {

inline constexpr const char* kVocabularyFile = "vocab.txt";
inline constexpr const char* kTokenizerFile = "tokenizer.json";
inline constexpr const char* kTokenizerConfigFile = "tokenizer_config.json";

/// The file of a folder to load: tokenizer.json, else vocab.txt, else none.
std::optional<std::filesystem::path> tokenizer_in_folder(const std::filesystem::path& folder);

/// From a tokenizer.json (by its ending, .json) or a vocab.txt. How text becomes words is as the first says, and as a
/// tokenizer_config.json beside `file` says; where neither does as kUncased, or kCased if `cased`. Throws Error if a
/// file cannot be read, if two of them, or `cased`, say different things, and if tokenizer_config.json asks for other
/// words than a BasicTokenizer's (BertJapaneseTokenizer's).
TokenizerFile load_tokenizer(const std::filesystem::path& file, bool cased = false);

/// The text of a tokenizer_config.json with which transformers tokenizes as a WordPiece does.
std::string to_tokenizer_config(const WordOptions& words);

/// Writes all three files into `folder`, each whole or not at all.
void save_tokenizer(const std::filesystem::path& folder, const TokenizerFile& tokenizer);

}  // namespace tandem::data
