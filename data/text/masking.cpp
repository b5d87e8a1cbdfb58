#include "tandem/data/text/masking.h"

#include <algorithm>
#include <cmath>

#include "tandem/core/error.h"
#include "tandem/data/dataset.h"

namespace tandem::data {

Masking::Masking(const Vocabulary& vocabulary, double probability)
    : special_(vocabulary.special()), vocabulary_size_(vocabulary.size()), probability_(probability) {
  const auto special = special_.all();
  sorted_special_.assign(special.begin(), special.end());
  std::sort(sorted_special_.begin(), sorted_special_.end());
  if (!(probability > 0 && probability <= 1))
    core::fail("masking: a probability of {}, needed more than 0 and at most 1", probability);
  if (vocabulary_size_ <= static_cast<std::int64_t>(sorted_special_.size()))
    core::fail("masking: the vocabulary has special tokens alone");
}

std::int64_t Masking::ordinary_token(std::uint32_t word) const {
  std::int64_t token = draw_below(word, vocabulary_size_ - static_cast<std::int64_t>(sorted_special_.size()));
  for (const std::int32_t special : sorted_special_) token += token >= special;
  return token;
}

void Masking::apply(std::span<std::int64_t> input, std::span<std::int64_t> target,
                    const core::PhiloxStream& stream) const {
  std::fill(target.begin(), target.end(), kNotPredicted);
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < input.size(); ++i)
    if (input[i] != special_.cls && input[i] != special_.sep && input[i] != special_.pad) places.push_back(i);
  if (places.empty()) return;

  const auto n = static_cast<std::int64_t>(places.size());
  const std::int64_t chosen = std::max<std::int64_t>(1, std::llround(probability_ * static_cast<double>(n)));
  std::vector<std::uint32_t> words(static_cast<std::size_t>(3 * chosen));
  stream.words(0, words.data(), 3 * chosen);
  const std::uint32_t* word = words.data();
  for (std::int64_t i = 0; i < chosen; ++i, word += 3) {
    // Fisher and Yates' shuffle, as far as it is needed.
    std::swap(places[static_cast<std::size_t>(i)], places[static_cast<std::size_t>(i + draw_below(word[0], n - i))]);
    const std::size_t place = places[static_cast<std::size_t>(i)];
    target[place] = input[place];
    if (const std::int64_t tenth = draw_below(word[1], 10); tenth < 8)
      input[place] = special_.mask;
    else if (tenth == 8)
      input[place] = ordinary_token(word[2]);
  }
}

}  // namespace tandem::data
