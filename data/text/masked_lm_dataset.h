// BERT's pre-training data from a tokenized corpus: packed sentences with masked tokens, alone or in pairs.
//
// Source: Devlin, Chang, Lee, Toutanova, "BERT", NAACL 2019, section 3.1 and appendix A.1; packing without regard to
// documents is "FULL-SENTENCES" of Liu et al., "RoBERTa", 2019, section 4.2.
#pragma once

#include <memory>
#include <vector>

#include "tandem/data/text/masking.h"
#include "tandem/data/text/text_dataset.h"
#include "tandem/data/text/token_corpus.h"

namespace tandem::data {

struct MaskedLmOptions {
  std::int64_t seq_length = 128;  ///< S
  bool pairs = false;             ///< two segments, and whether the second follows the first
  double mask_probability = 0.15;
};

class MaskedLmDataset final : public TextDataset {
 public:
  /// A sample is [CLS] tokens [SEP], or [CLS] A [SEP] B [SEP] with pairs, and [PAD] up to S. Its tokens are as many
  /// whole sentences, in the corpus's order and over the ends of documents, as have room; a sentence that is longer
  /// than a whole sample is cut. This packing is the same for every seed and epoch.
  ///
  /// With pairs a sample is split at one of its sentences' ends, drawn anew in each epoch (in its middle where it is
  /// one sentence); every other time B is the second part of another sample, cut where it is too long, and
  /// Batch::next_sentence is 1. What is masked is drawn anew in each epoch too (masking.h), by (seed, epoch, number of
  /// the sample): for an evaluation that can be repeated read with the same context.
  ///
  /// Throws Error for a sequence too short for one token (two with pairs), more than 2^32 - 1 samples, pairs of a
  /// corpus that fills one sample only, and what Masking throws for.
  MaskedLmDataset(TokenCorpus corpus, const Vocabulary& vocabulary, const MaskedLmOptions& options = {});

  std::int64_t size() const override { return static_cast<std::int64_t>(starts_.size()) - 1; }
  std::int64_t seq_length() const override { return options_.seq_length; }
  std::int64_t vocabulary_size() const override { return vocabulary_size_; }
  std::int64_t token_types() const override { return 2; }
  bool pairs() const override { return options_.pairs; }
  const TokenCorpus& corpus() const { return corpus_; }

 protected:
  Batch read_batch(std::span<const std::int64_t> indices, const EpochContext& context) const override;

 private:
  using Tokens = std::span<const std::int32_t>;
  struct Pair {
    Tokens first, second;
    bool is_next = true;
  };
  struct Row;  // of a batch

  void pack(std::int64_t capacity);
  Tokens sample(std::int64_t index) const;
  std::int64_t draw_split(std::int64_t index, std::uint32_t word) const;
  Pair draw_pair(std::int64_t index, const EpochContext& context) const;
  void write_row(std::int64_t index, const EpochContext& context, const Row& row) const;

  TokenCorpus corpus_;
  SpecialTokens special_;
  std::int64_t vocabulary_size_;
  MaskedLmOptions options_;
  Masking masking_;
  std::vector<std::int64_t> starts_;  // sample i is tokens [starts_[i], starts_[i + 1])
};

}  // namespace tandem::data
