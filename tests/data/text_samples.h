// What the tests of text share.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "tandem/data/text/masked_lm_dataset.h"
#include "tests/data/samples.h"

namespace tandem::data {

/// The special tokens, then "w5", "w6", ... up to `size`.
inline Vocabulary numbered_vocabulary(int size) {
  std::vector<std::string> tokens(kSpecialTokens.begin(), kSpecialTokens.end());
  for (int i = 5; i < size; ++i) tokens.push_back(fmt::format("w{}", i));
  return Vocabulary(std::move(tokens));
}

/// Sentences of these lengths; tokens count up from 5, and from 5 again when they reach `size`.
inline TokenCorpus numbered_corpus(const std::vector<int>& lengths, int size) {
  TokenCorpus corpus;
  for (const int length : lengths) {
    for (int i = 0; i < length; ++i) corpus.tokens.push_back(5 + static_cast<int>(corpus.tokens.size()) % (size - 5));
    corpus.sentence_ends.push_back(static_cast<std::int64_t>(corpus.tokens.size()));
  }
  return corpus;
}

inline TextCorpus corpus_of(const std::vector<std::vector<std::string>>& documents) {
  auto text = std::make_shared<std::string>();
  for (const auto& document : documents)
    for (const auto& sentence : document) *text += sentence;
  TextCorpus corpus{.name = "test", .text = text};
  std::size_t at = 0;
  for (const auto& document : documents) {
    for (const auto& sentence : document) {
      corpus.sentences.push_back(std::string_view(*text).substr(at, sentence.size()));
      at += sentence.size();
    }
    corpus.end_document();
  }
  return corpus;
}

/// One field of a batch's row.
inline std::vector<std::int64_t> row_of(const core::Tensor& field, std::int64_t row) {
  return field.select(0, row).to_vector<std::int64_t>();
}

/// What a sample would be without masks.
inline std::vector<std::int64_t> unmasked(const Batch& batch, std::int64_t row) {
  auto tokens = row_of(batch.input, row);
  const auto target = row_of(batch.target, row);
  for (std::size_t i = 0; i < tokens.size(); ++i)
    if (target[i] != kNotPredicted) tokens[i] = target[i];
  return tokens;
}

}  // namespace tandem::data
