#include "tandem/data/text/synthetic_text.h"

#include <vector>

#include "tandem/core/parallel.h"

namespace tandem::data {
namespace {

constexpr std::int64_t kMask = 0;

// Counts through the ordinary tokens, 1 to V - 1.
struct Counter {
  std::int64_t token = 0, step = 1, ordinary = 1;

  std::int64_t next() {
    const std::int64_t now = token;
    token = (token + step) % ordinary;
    return 1 + now;
  }
};

}  // namespace

/// Where a sample is written to.
struct SyntheticText::Row {
  std::int64_t *tokens, *labels, *types, *next_sentence;
};

SyntheticText::SyntheticText(const SyntheticTextOptions& options) : options_(options) {
  if (options.first >> 32 != 0 || options.size >> 32 != 0 || (options.first + options.size) >> 32 != 0)
    core::fail("synthetic text: {} samples from number {} on, needed numbers from 0 to 2^32 - 1", options.size,
               options.first);
  if (options.seq_length < 2) core::fail("synthetic text: sequences of {}, needed 2 or more", options.seq_length);
  if (options.vocabulary_size < 16) core::fail("synthetic text: {} tokens, needed 16 or more", options.vocabulary_size);
}

void SyntheticText::write_row(std::int64_t index, const Row& row) const {
  constexpr std::int64_t kChoices = 8;  // words that choose tokens and steps, before those that mask
  const std::int64_t length = options_.seq_length;
  std::vector<std::uint32_t> words(static_cast<std::size_t>(kChoices + length));
  sample_stream({.seed = options_.seed}, options_.first + index, Draw::noise)
      .words(0, words.data(), static_cast<std::int64_t>(words.size()));
  const std::uint32_t* masks = words.data() + kChoices;

  Counter counter{.ordinary = options_.vocabulary_size - 1};
  counter.token = words[0] % counter.ordinary;
  counter.step = 1 + words[1] % 8;
  const bool is_next = !options_.pairs || words[2] >> 31 == 0;
  for (std::int64_t i = 0; i < length; ++i) {
    if (i == length / 2 && !is_next) {
      counter.token = words[3] % counter.ordinary;
      counter.step = 1 + (counter.step + words[4] % 7) % 8;  // another one
    }
    const std::int64_t token = counter.next();
    const bool is_masked = masks[i] < options_.mask_probability * 0x1p32;
    row.tokens[i] = is_masked ? kMask : token;
    row.labels[i] = is_masked ? token : kNotPredicted;
    row.types[i] = options_.pairs && i >= length / 2;
  }
  if (row.next_sentence) *row.next_sentence = is_next ? 0 : 1;
}

Batch SyntheticText::read_batch(std::span<const std::int64_t> indices, const EpochContext&) const {
  const core::Shape shape{static_cast<std::int64_t>(indices.size()), options_.seq_length};
  const core::TensorOptions int64{.dtype = core::DType::int64, .device = core::kCpu};
  Batch batch{.input = core::Tensor::empty(shape, int64),
              .target = core::Tensor::empty(shape, int64),
              .attention_mask = core::Tensor::full(shape, 1, int64),
              .token_type_ids = core::Tensor::empty(shape, int64),
              .next_sentence = {}};
  if (options_.pairs) batch.next_sentence = core::Tensor::empty({shape[0]}, int64);
  const Row first{.tokens = batch.input.mutable_data<std::int64_t>(),
                  .labels = batch.target.mutable_data<std::int64_t>(),
                  .types = batch.token_type_ids.mutable_data<std::int64_t>(),
                  .next_sentence = options_.pairs ? batch.next_sentence.mutable_data<std::int64_t>() : nullptr};
  core::parallel_for(shape[0], 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      write_row(indices[static_cast<std::size_t>(i)],
                {.tokens = first.tokens + i * shape[1],
                 .labels = first.labels + i * shape[1],
                 .types = first.types + i * shape[1],
                 .next_sentence = options_.pairs ? first.next_sentence + i : nullptr});
  });
  return batch;
}

}  // namespace tandem::data
