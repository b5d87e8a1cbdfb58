// Lines of text that nobody has labelled, for a model that is to say something about them.
#pragma once

#include <string>
#include <vector>

#include "tandem/data/text/text_dataset.h"
#include "tandem/data/text/wordpiece.h"

namespace tandem::data {

struct TextLinesOptions {
  std::int64_t longest = 512;  ///< tokens that the model takes, special ones counted
  bool truncate = false;       ///< longer lines are cut; else they are an Error
  std::int64_t classes = 0;    ///< a class for each line; 0: each [MASK] in it is to be filled
};

/// A sample is [CLS] line [SEP] and [PAD] up to the longest of all. "[MASK]" in a line is that token. Targets are not
/// known: class 0 for each line, or [MASK] itself at each [MASK].
class TextLines final : public TextDataset {
 public:
  /// Throws Error naming the line, by `names`, one for each: if it has too many tokens, or no [MASK] to be filled.
  TextLines(const std::vector<std::string>& lines, const std::vector<std::string>& names, const WordPiece& tokenizer,
            const TextLinesOptions& options = {});

  std::int64_t size() const override { return static_cast<std::int64_t>(samples_.size()); }
  std::int64_t seq_length() const override { return length_; }
  std::int64_t vocabulary_size() const override { return vocabulary_size_; }
  std::int64_t token_types() const override { return 1; }
  bool pairs() const override { return false; }
  std::int64_t classes() const override { return options_.classes; }
  /// [MASK]s of each line.
  const std::vector<std::int64_t>& masks() const { return masks_; }

 protected:
  Batch read_batch(std::span<const std::int64_t> indices, const EpochContext& context) const override;

 private:
  TextLinesOptions options_;
  SpecialTokens special_;
  std::int64_t vocabulary_size_;
  std::vector<std::vector<std::int32_t>> samples_;
  std::vector<std::int64_t> masks_;
  std::int64_t length_ = 3;
};

}  // namespace tandem::data
