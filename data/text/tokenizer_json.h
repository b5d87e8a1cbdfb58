// tokenizer.json: a vocabulary, and how text becomes its words, as Hugging Face's tokenizers keep them in one file.
//
// Source: github.com/huggingface/tokenizers. Read and written is what a BERT has: model WordPiece, normalizer
// BertNormalizer, pre-tokenizer BertPreTokenizer.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "tandem/data/text/vocabulary.h"
#include "tandem/data/text/wordpiece_words.h"

namespace tandem::data {

struct TokenizerFile {
  Vocabulary vocabulary;
  WordOptions words = {};
};

/// From a file's text. Nothing in it is trusted. Throws Error naming `source` and what is wrong: text that is no JSON,
/// keys that appear twice, another kind of model (BPE, Unigram, ...), ids that are there twice or leave holes, tokens
/// that Vocabulary refuses, or a setting that would give other tokens than WordPiece does.
TokenizerFile parse_tokenizer_json(std::string_view text, const std::string& source);
/// The same from a file, of which no more than kMostVocabularyBytes are read.
TokenizerFile load_tokenizer_json(const std::filesystem::path& path);

/// The text of a tokenizer.json that Hugging Face's tokenizers read.
std::string to_tokenizer_json(const Vocabulary& vocabulary, const WordOptions& words);

}  // namespace tandem::data
