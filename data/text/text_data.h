// From a corpus to what pre-training needs, in one call.
//
//   open_text_data(read_wordnet())
//   open_text_data(read_text_corpus("notes.txt"), {.vocabulary = Vocabulary::load("vocab.txt")})
#pragma once

#include <memory>

#include "tandem/data/text/masked_lm_dataset.h"
#include "tandem/data/text/text_corpus.h"
#include "tandem/data/text/wordpiece_learner.h"

namespace tandem::data {

struct TextDataOptions {
  std::optional<Vocabulary> vocabulary = {};  ///< none: learned from the training part
  std::int64_t vocabulary_size = 8192;        ///< of one that is learned
  WordOptions words = {};                     ///< as the vocabulary was made, or is to be
  MaskedLmOptions samples = {};
};

struct TextData {
  WordPiece tokenizer;
  std::unique_ptr<MaskedLmDataset> train, test;  ///< both with the same options
  double unigram_entropy;                        ///< of the training part, nats
};

/// `test`, if given, is the test, and all of the corpus for training; else they are part_of(corpus, Split). Throws
/// Error naming the corpus that has no text, and what its parts throw.
TextData open_text_data(const TextCorpus& corpus, const TextDataOptions& options = {},
                        const TextCorpus* test = nullptr);

}  // namespace tandem::data
