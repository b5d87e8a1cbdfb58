#include "tandem/data/text/token_corpus.h"

#include <cmath>

#include "tandem/core/parallel.h"

namespace tandem::data {

TokenCorpus tokenize(const TextCorpus& corpus, const WordPiece& tokenizer) {
  constexpr std::int64_t kChunk = 4096;
  const auto sentences = static_cast<std::int64_t>(corpus.sentences.size());
  std::vector<TokenCorpus> parts(static_cast<std::size_t>((sentences + kChunk - 1) / kChunk));
  core::parallel_chunks(sentences, kChunk, [&](std::int64_t chunk, std::int64_t begin, std::int64_t end) {
    TokenCorpus& part = parts[static_cast<std::size_t>(chunk)];
    for (std::int64_t sentence = begin; sentence < end; ++sentence) {
      const std::size_t before = part.tokens.size();
      tokenizer.encode(corpus.sentences[static_cast<std::size_t>(sentence)], &part.tokens);
      if (part.tokens.size() > before) part.sentence_ends.push_back(static_cast<std::int64_t>(part.tokens.size()));
    }
  });

  TokenCorpus whole;
  std::size_t tokens = 0, ends = 0;
  for (const TokenCorpus& part : parts) tokens += part.tokens.size(), ends += part.sentence_ends.size();
  whole.tokens.reserve(tokens);
  whole.sentence_ends.reserve(ends);
  for (TokenCorpus& part : parts) {
    const auto before = static_cast<std::int64_t>(whole.tokens.size());
    for (const std::int64_t end : part.sentence_ends) whole.sentence_ends.push_back(before + end);
    whole.tokens.insert(whole.tokens.end(), part.tokens.begin(), part.tokens.end());
    part = {};  // so that the peak is not twice the whole
  }
  return whole;
}

double unigram_entropy(const TokenCorpus& corpus) {
  std::vector<std::int64_t> counts;
  for (const std::int32_t token : corpus.tokens) {
    const auto number = static_cast<std::size_t>(token);
    if (number >= counts.size()) counts.resize(number + 1);
    ++counts[number];
  }
  const auto total = static_cast<double>(corpus.tokens.size());
  double entropy = 0;
  for (const std::int64_t count : counts)
    if (count > 0) entropy -= static_cast<double>(count) / total * std::log(static_cast<double>(count) / total);
  return entropy;
}

}  // namespace tandem::data
