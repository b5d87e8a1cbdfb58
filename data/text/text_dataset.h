// Sequences of tokens for a model such as BERT: every sample has the same length, shorter text is padded.
//
// Of Batch all fields are defined, next_sentence where the data set has pairs.
#pragma once

#include "tandem/data/dataset.h"

namespace tandem::data {

class TextDataset : public Dataset {
 public:
  /// S, tokens of a sample with its special ones and padding.
  virtual std::int64_t seq_length() const = 0;
  /// Tokens, targets included, are below this.
  virtual std::int64_t vocabulary_size() const = 0;
  /// Token types are below this: 2 with pairs.
  virtual std::int64_t token_types() const = 0;
  /// Samples are two sentences, with Batch::next_sentence.
  virtual bool pairs() const = 0;
  /// Above 0: Batch::target is [N], a class below this for each sample, and no token is to be predicted.
  virtual std::int64_t classes() const { return 0; }
};

}  // namespace tandem::data
