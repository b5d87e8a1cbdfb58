// Learns a WordPiece vocabulary from a corpus.
//
// Words are cut into characters, and the two neighbouring pieces that stand beside each other most often are merged
// into a new one, again and again. Source: Sennrich, Haddow, Birch, "Neural machine translation of rare words with
// subword units", ACL 2016 (byte-pair encoding); Hugging Face's trainer for BERT merges so too. (Schuster and Nakajima,
// 2012, who invented WordPiece, merge what raises the likelihood of the corpus most; Google's own trainer for it has
// not been published.)
#pragma once

#include <cstdint>

#include "tandem/data/text/text_corpus.h"
#include "tandem/data/text/vocabulary.h"
#include "tandem/data/text/wordpiece_words.h"

namespace tandem::data {

struct LearnerOptions {
  std::int64_t size = 8192;        ///< tokens, at most: fewer where no pair is frequent enough any more
  std::int64_t min_frequency = 2;  ///< a pair that is rarer is not merged
  std::int64_t alphabet = 1000;    ///< characters, at most: the most frequent ones; words with others will be [UNK]
  WordOptions words = {};          ///< as the tokenizer's
};

/// The special tokens, then the alphabet in order of code points, then merges in their order. A character of the
/// alphabet is a token itself, and with "##" before it where it ever stands beside another in a word, so every word of
/// such characters has pieces. Where pairs are equally frequent, the one whose pieces were there first is merged: the
/// same corpus gives the same vocabulary. Throws Error where `size` does not hold the alphabet.
Vocabulary learn_vocabulary(const TextCorpus& corpus, const LearnerOptions& options = {});

}  // namespace tandem::data
