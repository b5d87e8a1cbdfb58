#include "tandem/data/text/text_lines.h"

#include <algorithm>

namespace tandem::data {

TextLines::TextLines(const std::vector<std::string>& lines, const std::vector<std::string>& names,
                     const WordPiece& tokenizer, const TextLinesOptions& options)
    : options_(options), special_(tokenizer.vocabulary().special()), vocabulary_size_(tokenizer.vocabulary().size()) {
  for (std::size_t i = 0; i < lines.size(); ++i) {
    std::vector<std::int32_t> tokens{special_.cls};
    tokenizer.encode(lines[i], &tokens);
    if (const auto length = std::ssize(tokens) + 1; length > options.longest) {
      if (!options.truncate)
        core::fail("{}: {} tokens, the model takes {}; with --truncate lines are cut", names[i], length,
                   options.longest);
      tokens.resize(static_cast<std::size_t>(options.longest) - 1);
    }
    tokens.push_back(special_.sep);
    masks_.push_back(std::count(tokens.begin(), tokens.end(), special_.mask));
    if (options.classes == 0 && masks_.back() == 0)
      core::fail("{}: has no [MASK], which the model, a masked language model, could fill", names[i]);
    length_ = std::max(length_, static_cast<std::int64_t>(tokens.size()));
    samples_.push_back(std::move(tokens));
  }
}

Batch TextLines::read_batch(std::span<const std::int64_t> indices, const EpochContext&) const {
  const auto rows = static_cast<std::int64_t>(indices.size());
  const auto filled = [](const core::Shape& shape, std::int64_t value) {
    return core::Tensor::full(shape, static_cast<double>(value), {.dtype = core::DType::int64, .device = core::kCpu});
  };
  Batch batch;
  batch.input = filled({rows, length_}, special_.pad);
  batch.attention_mask = filled({rows, length_}, 0);
  batch.token_type_ids = filled({rows, length_}, 0);
  batch.target = options_.classes > 0 ? filled({rows}, 0) : filled({rows, length_}, kNotPredicted);
  auto* input = batch.input.mutable_data<std::int64_t>();
  auto* mask = batch.attention_mask.mutable_data<std::int64_t>();
  auto* target = batch.target.mutable_data<std::int64_t>();
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto& tokens = samples_[static_cast<std::size_t>(indices[static_cast<std::size_t>(row)])];
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const std::size_t at = static_cast<std::size_t>(row * length_) + i;
      input[at] = tokens[i];
      mask[at] = 1;
      if (options_.classes == 0 && tokens[i] == special_.mask) target[at] = special_.mask;
    }
  }
  return batch;
}

}  // namespace tandem::data
