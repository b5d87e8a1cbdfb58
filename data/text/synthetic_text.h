// Sequences of tokens that need no file: each sample is a function of (seed, index), and a model can learn it.
#pragma once

#include "tandem/data/text/text_dataset.h"

namespace tandem::data {

struct SyntheticTextOptions {
  std::int64_t first = 0;  ///< number of the first sample, as of Synthetic
  std::int64_t size = 1024;
  std::int64_t seq_length = 128;
  std::int64_t vocabulary_size = 30522;
  bool pairs = false;
  double mask_probability = 0.15;
  std::uint64_t seed = 0;
};

/// A sample counts: from a random token on, each is the one before it plus a step of 1 to 8 that is the sample's own.
/// Token 0 stands for [MASK], so what is masked follows from its neighbours. With pairs the second half counts on where
/// it follows the first, else from another token with another step. No padding.
class SyntheticText final : public TextDataset {
 public:
  /// Throws Error where numbers of samples are not in [0, 2^32), a sequence has fewer than 2 tokens, or the vocabulary
  /// fewer than 16.
  explicit SyntheticText(const SyntheticTextOptions& options);

  std::int64_t size() const override { return options_.size; }
  std::int64_t seq_length() const override { return options_.seq_length; }
  std::int64_t vocabulary_size() const override { return options_.vocabulary_size; }
  std::int64_t token_types() const override { return options_.pairs ? 2 : 1; }
  bool pairs() const override { return options_.pairs; }

 protected:
  Batch read_batch(std::span<const std::int64_t> indices, const EpochContext& context) const override;

 private:
  struct Row;
  void write_row(std::int64_t index, const Row& row) const;

  SyntheticTextOptions options_;
};

}  // namespace tandem::data
