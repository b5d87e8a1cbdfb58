// The merging of neighbouring pieces that wordpiece_learner.h describes, quick enough for a hundred thousand words.
#pragma once

#include <cstdint>
#include <queue>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace tandem::data {

class PieceMerger {
 public:
  /// Returns the piece's number: the next one, or that of an equal piece.
  std::int32_t add_piece(const std::string& piece);
  /// A word that the corpus has `count` times, of pieces that were added.
  void add_word(std::span<const std::int32_t> pieces, std::int64_t count);

  /// Merges the most frequent pair wherever it stands; where several are, that of the lowest numbers, the left one
  /// first. False where none is there `min_frequency` times. Adds at most one piece: a different pair may have made the
  /// same one before.
  bool merge_most_frequent(std::int64_t min_frequency);

  std::int64_t size() const { return static_cast<std::int64_t>(pieces_.size()); }
  std::vector<std::string> take_pieces() { return std::move(pieces_); }

 private:
  struct Word {
    std::size_t begin;  // in in_words_
    std::size_t length;
    std::int64_t count;
  };
  struct Pair {
    std::int64_t count = 0;
    std::vector<std::uint32_t> words;  // where it stands or has stood; one may be there twice
  };
  using Key = std::uint64_t;  // left << 32 | right
  struct Candidate {
    std::int64_t count;
    Key key;
    bool operator<(const Candidate& other) const {
      return count != other.count ? count < other.count : key > other.key;
    }
  };

  static Key key(std::int32_t left, std::int32_t right) {
    return static_cast<Key>(left) << 32 | static_cast<std::uint32_t>(right);
  }
  void increase(Key pair, std::uint32_t word);
  void decrease(Key pair, std::uint32_t word);
  void merge_in_word(std::uint32_t word, std::int32_t left, std::int32_t right, std::int32_t merged);

  std::vector<std::string> pieces_;
  std::unordered_map<std::string, std::int32_t> numbers_;
  std::vector<std::int32_t> in_words_;  // pieces of all words
  std::vector<Word> words_;
  std::unordered_map<Key, Pair> pairs_;
  // Each pair that is still there has an entry with at least its count; entries that promise more are put right when
  // their turn comes.
  std::priority_queue<Candidate> queue_;
  std::vector<Key> increased_;  // by the merge at hand
};

}  // namespace tandem::data
