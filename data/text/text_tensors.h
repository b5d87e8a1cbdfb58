// Sequences from a safetensors file, ready as they are: what checks against other frameworks use.
#pragma once

#include <filesystem>

#include "tandem/data/text/text_dataset.h"

namespace tandem::data {

class TextTensors final : public TextDataset {
 public:
  /// int64, named as Hugging Face names them: `input_ids` [N, S] and `labels`, either [N, S], kNotPredicted (-100)
  /// where nothing is to be predicted, or [N], a class for each sample; and where the file has them `attention_mask`
  /// [N, S] (0 or 1; missing: all 1), `token_type_ids` [N, S] (missing: all 0), `next_sentence_label` [N] (0 or 1).
  /// Other tensors are left alone. Samples are numbered in the file's order. Throws Error naming the file and the
  /// tensor where one is missing, has another dtype or shape, or a value that it cannot have.
  explicit TextTensors(const std::filesystem::path& path);

  std::int64_t size() const override { return input_ids_.size(0); }
  std::int64_t seq_length() const override { return input_ids_.size(1); }
  /// One more than the largest token or label, at least 1.
  std::int64_t vocabulary_size() const override { return vocabulary_size_; }
  /// One more than the largest type, at least 1.
  std::int64_t token_types() const override { return token_types_; }
  bool pairs() const override { return next_sentence_.defined(); }
  /// One more than the largest label, where labels are [N]; else 0.
  std::int64_t classes() const override { return classes_; }

 protected:
  Batch read_batch(std::span<const std::int64_t> indices, const EpochContext& context) const override;

 private:
  core::Tensor input_ids_, labels_, attention_mask_, token_type_ids_, next_sentence_;
  std::int64_t vocabulary_size_ = 1, token_types_ = 1, classes_ = 0;
};

/// What a file of tensors is for.
enum class TensorsKind : std::uint8_t {
  labelled,  ///< `input` and `target`: TensorsDataset
  text       ///< `input_ids` and `labels`: TextTensors
};

/// By the names in the file's header: text where there is an `input_ids`. Throws Error where there is neither that nor
/// an `input`.
TensorsKind tensors_kind(const std::filesystem::path& path);

}  // namespace tandem::data
