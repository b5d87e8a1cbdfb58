// What a masked language model is to predict: which tokens, and what stands in their place.
//
// Source: Devlin, Chang, Lee, Toutanova, "BERT", NAACL 2019, section 3.1, Task 1, and its code's
// create_masked_lm_predictions().
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tandem/core/random.h"
#include "tandem/data/text/vocabulary.h"

namespace tandem::data {

class Masking {
 public:
  /// Throws Error for a probability that is not above 0 and at most 1, and a vocabulary of special tokens alone.
  Masking(const Vocabulary& vocabulary, double probability);

  /// Of the n tokens of `input` that are none of [CLS] [SEP] [PAD], exactly max(1, round(probability n)) are chosen, as
  /// in BERT's own code, each set equally likely. `target` gets them there and kNotPredicted elsewhere; in `input`
  /// [MASK] takes their place with probability 0.8, any other token than a special one with 0.1 (perhaps the same), and
  /// else they stay. Neither is longer than 2^30. Draws words 0 to 3n - 1 of the stream at most.
  void apply(std::span<std::int64_t> input, std::span<std::int64_t> target, const core::PhiloxStream& stream) const;

 private:
  std::int64_t ordinary_token(std::uint32_t word) const;

  SpecialTokens special_;
  std::vector<std::int32_t> sorted_special_;
  std::int64_t vocabulary_size_;
  double probability_;
};

/// An integer in [0, n), n below 2^32, from a random word: each as likely as the others but for 2^-32 n.
inline std::int64_t draw_below(std::uint32_t word, std::int64_t n) {
  return static_cast<std::int64_t>(std::uint64_t{word} * static_cast<std::uint64_t>(n) >> 32);
}

}  // namespace tandem::data
