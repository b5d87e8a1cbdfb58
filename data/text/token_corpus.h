// A corpus as tokens: all that training needs to keep of it, four bytes a token and eight a sentence.
#pragma once

#include <cstdint>
#include <vector>

#include "tandem/data/text/text_corpus.h"
#include "tandem/data/text/wordpiece.h"

namespace tandem::data {

struct TokenCorpus {
  std::vector<std::int32_t> tokens;         ///< of all sentences, one after the other, without special tokens between
  std::vector<std::int64_t> sentence_ends;  ///< numbers of tokens, increasing: a sentence has at least one
};

/// On all compute threads; the same for any number of them. Sentences without a token (control characters alone) are
/// left out.
TokenCorpus tokenize(const TextCorpus& corpus, const WordPiece& tokenizer);

/// H = -sum over tokens of p log p, in nats, p a token's share of the corpus: the loss of who guesses tokens by how
/// frequent they are. A masked language model that has learned anything from context is below it. 0 without tokens.
double unigram_entropy(const TokenCorpus& corpus);

}  // namespace tandem::data
