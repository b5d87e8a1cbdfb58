#include "tandem/data/text/piece_merger.h"

#include <algorithm>

#include "tandem/data/text/vocabulary.h"

namespace tandem::data {

std::int32_t PieceMerger::add_piece(const std::string& piece) {
  const auto [found, is_new] = numbers_.emplace(piece, static_cast<std::int32_t>(pieces_.size()));
  if (is_new) pieces_.push_back(piece);
  return found->second;
}

void PieceMerger::add_word(std::span<const std::int32_t> pieces, std::int64_t count) {
  const auto word = static_cast<std::uint32_t>(words_.size());
  words_.push_back({in_words_.size(), pieces.size(), count});
  in_words_.insert(in_words_.end(), pieces.begin(), pieces.end());
  for (std::size_t i = 0; i + 1 < pieces.size(); ++i) increase(key(pieces[i], pieces[i + 1]), word);
}

void PieceMerger::increase(Key pair, std::uint32_t word) {
  Pair& entry = pairs_[pair];
  entry.count += words_[word].count;
  if (entry.words.empty() || entry.words.back() != word) entry.words.push_back(word);
  increased_.push_back(pair);
}

void PieceMerger::decrease(Key pair, std::uint32_t word) {
  if (const auto found = pairs_.find(pair); found != pairs_.end()) found->second.count -= words_[word].count;
}

bool PieceMerger::merge_most_frequent(std::int64_t min_frequency) {
  std::sort(increased_.begin(), increased_.end());
  increased_.erase(std::unique(increased_.begin(), increased_.end()), increased_.end());
  for (const Key pair : increased_) queue_.push({pairs_[pair].count, pair});
  increased_.clear();
  while (!queue_.empty() && queue_.top().count >= min_frequency) {
    const Candidate best = queue_.top();
    queue_.pop();
    const auto found = pairs_.find(best.key);
    if (found == pairs_.end()) continue;
    if (found->second.count != best.count) {
      if (found->second.count < best.count && found->second.count > 0) queue_.push({found->second.count, best.key});
      continue;
    }
    const std::vector<std::uint32_t> words = std::move(found->second.words);
    pairs_.erase(found);
    const auto left = static_cast<std::int32_t>(best.key >> 32), right = static_cast<std::int32_t>(best.key);
    const std::int32_t merged = add_piece(pieces_[static_cast<std::size_t>(left)] +
                                          pieces_[static_cast<std::size_t>(right)].substr(kContinues.size()));
    for (const std::uint32_t word : words) merge_in_word(word, left, right, merged);
    return true;
  }
  return false;
}

void PieceMerger::merge_in_word(std::uint32_t word, std::int32_t left, std::int32_t right, std::int32_t merged) {
  std::int32_t* pieces = in_words_.data() + words_[word].begin;
  const std::size_t length = words_[word].length;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < length; ++i) {
    if (i + 1 == length || pieces[i] != left || pieces[i + 1] != right) {
      pieces[kept++] = pieces[i];
      continue;
    }
    if (kept > 0) {
      decrease(key(pieces[kept - 1], left), word);
      increase(key(pieces[kept - 1], merged), word);
    }
    if (i + 2 < length) {
      decrease(key(right, pieces[i + 2]), word);
      increase(key(merged, pieces[i + 2]), word);
    }
    pieces[kept++] = merged;
    ++i;
  }
  words_[word].length = kept;
}

}  // namespace tandem::data
