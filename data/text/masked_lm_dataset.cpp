#include "tandem/data/text/masked_lm_dataset.h"

#include <algorithm>

#include "tandem/core/parallel.h"

namespace tandem::data {

MaskedLmDataset::MaskedLmDataset(TokenCorpus corpus, const Vocabulary& vocabulary, const MaskedLmOptions& options)
    : corpus_(std::move(corpus)),
      special_(vocabulary.special()),
      vocabulary_size_(vocabulary.size()),
      options_(options),
      masking_(vocabulary, options.mask_probability) {
  const std::int64_t capacity = options.seq_length - (options.pairs ? 3 : 2);
  if (capacity < (options.pairs ? 2 : 1))
    core::fail("masked language model: sequences of {} tokens have no room for text, needed {} or more",
               options.seq_length, options.pairs ? 5 : 3);
  pack(capacity);
  if (size() >> 32 != 0) core::fail("masked language model: {} samples, needed fewer than 2^32", size());
  if (options.pairs && size() == 1)
    core::fail("masked language model: pairs need text for two samples or more, {} tokens are one",
               corpus_.tokens.size());
}

// With pairs a sample has two tokens at least, one for each part: where it would have one, a sentence is cut elsewhere.
// With room for no more than two (S = 5) that is not always possible, and a second part may be empty.
void MaskedLmDataset::pack(std::int64_t capacity) {
  const std::int64_t least = options_.pairs ? 2 : 1;
  std::int64_t start = 0, end = 0;  // of the sample at hand: whole sentences so far
  starts_.push_back(0);
  const auto close = [&](std::int64_t at) { starts_.push_back(start = at); };
  for (const std::int64_t sentence_end : corpus_.sentence_ends) {
    if (sentence_end - start > capacity && end - start >= least) close(end);
    while (sentence_end - start > capacity)
      close(std::min(start + capacity, std::max(start + least, sentence_end - least)));
    end = sentence_end;
  }
  if (end > start && end - start < least && starts_.size() > 1) starts_.back() = start = end - least;
  if (end > start) close(end);
}

MaskedLmDataset::Tokens MaskedLmDataset::sample(std::int64_t index) const {
  const auto begin = starts_[static_cast<std::size_t>(index)], end = starts_[static_cast<std::size_t>(index) + 1];
  return Tokens(corpus_.tokens).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
}

// Where a sample's second segment begins, in tokens from its start: at the end of any of its sentences but the last.
std::int64_t MaskedLmDataset::draw_split(std::int64_t index, std::uint32_t word) const {
  const auto begin = starts_[static_cast<std::size_t>(index)], end = starts_[static_cast<std::size_t>(index) + 1];
  const auto& ends = corpus_.sentence_ends;
  const auto first = std::upper_bound(ends.begin(), ends.end(), begin);
  const auto last = std::lower_bound(first, ends.end(), end);
  if (first == last) return (end - begin + 1) / 2;
  return first[draw_below(word, last - first)] - begin;
}

MaskedLmDataset::Pair MaskedLmDataset::draw_pair(std::int64_t index, const EpochContext& context) const {
  const auto words = sample_stream(context, index, Draw::pair).block(0);
  const auto split = static_cast<std::size_t>(draw_split(index, words[0]));
  const Tokens whole = sample(index);
  if (words[1] >> 31 == 0) return {whole.first(split), whole.subspan(split), true};
  std::int64_t other = draw_below(words[2], size() - 1);
  other += other >= index;
  const Tokens stranger = sample(other).subspan(static_cast<std::size_t>(draw_split(other, words[3])));
  const std::size_t room = static_cast<std::size_t>(options_.seq_length - 3) - split;
  return {whole.first(split), stranger.first(std::min(room, stranger.size())), false};
}

// S values of each, and one label.
struct MaskedLmDataset::Row {
  std::int64_t* input;
  std::int64_t* target;
  std::int64_t* attention_mask;
  std::int64_t* token_type_ids;
  std::int64_t* next_sentence;  // null without pairs
};

void MaskedLmDataset::write_row(std::int64_t index, const EpochContext& context, const Row& row) const {
  const auto length = static_cast<std::size_t>(options_.seq_length);
  const Pair pair = options_.pairs ? draw_pair(index, context) : Pair{sample(index), {}, true};
  std::int64_t* next = row.input;
  *next++ = special_.cls;
  next = std::copy(pair.first.begin(), pair.first.end(), next);
  *next++ = special_.sep;
  const std::int64_t* second = next;
  if (options_.pairs) {
    next = std::copy(pair.second.begin(), pair.second.end(), next);
    *next++ = special_.sep;
    *row.next_sentence = pair.is_next ? 0 : 1;
  }
  const std::int64_t* end = row.input + length;
  std::fill_n(row.token_type_ids, length, 0);
  std::fill_n(row.token_type_ids + (second - row.input), next - second, 1);
  std::fill_n(row.attention_mask, length, 0);
  std::fill_n(row.attention_mask, next - row.input, 1);
  std::fill_n(next, end - next, special_.pad);
  masking_.apply({row.input, length}, {row.target, length}, sample_stream(context, index, Draw::mask));
}

Batch MaskedLmDataset::read_batch(std::span<const std::int64_t> indices, const EpochContext& context) const {
  const auto rows = static_cast<std::int64_t>(indices.size());
  const std::int64_t length = options_.seq_length;
  const auto integers = [](const core::Shape& shape) {
    return core::Tensor::empty(shape, {.dtype = core::DType::int64, .device = core::kCpu});
  };
  Batch batch;
  batch.input = integers({rows, length});
  batch.target = integers({rows, length});
  batch.attention_mask = integers({rows, length});
  batch.token_type_ids = integers({rows, length});
  if (options_.pairs) batch.next_sentence = integers({rows});
  if (rows == 0) return batch;
  const Row first{batch.input.mutable_data<std::int64_t>(), batch.target.mutable_data<std::int64_t>(),
                  batch.attention_mask.mutable_data<std::int64_t>(), batch.token_type_ids.mutable_data<std::int64_t>(),
                  options_.pairs ? batch.next_sentence.mutable_data<std::int64_t>() : nullptr};
  core::parallel_for(rows, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      write_row(indices[static_cast<std::size_t>(i)], context,
                {first.input + i * length, first.target + i * length, first.attention_mask + i * length,
                 first.token_type_ids + i * length, options_.pairs ? first.next_sentence + i : nullptr});
  });
  return batch;
}

}  // namespace tandem::data
