#include "tandem/data/text/wordpiece_learner.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "tandem/core/error.h"
#include "tandem/data/text/piece_merger.h"
#include "tandem/data/text/unicode.h"
#include "tandem/data/text/wordpiece.h"

namespace tandem::data {
namespace {

struct StringHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
using WordCounts = std::unordered_map<std::string, std::int64_t, StringHash, std::equal_to<>>;

WordCounts count_words(const TextCorpus& corpus, const WordOptions& options) {
  WordCounts counts;
  std::string words;
  for (const std::string_view sentence : corpus.sentences) {
    words.clear();
    append_words(sentence, options, &words);
    for_each_word(words, [&](std::string_view word) {
      if (const auto found = counts.find(word); found != counts.end())
        ++found->second;
      else
        counts.emplace(word, 1);
    });
  }
  return counts;
}

std::u32string code_points(std::string_view word) {
  std::u32string points;
  for (std::size_t at = 0; at < word.size();) points += next_code_point(word, &at).value();
  return points;
}

struct Character {
  std::int64_t count = 0;
  bool has_neighbours = false;
};
using Alphabet = std::map<char32_t, Character>;

Alphabet find_alphabet(const WordCounts& words, std::int64_t most) {
  Alphabet alphabet;
  for (const auto& [word, count] : words) {
    const std::u32string points = code_points(word);
    for (const char32_t point : points) {
      Character& character = alphabet[point];
      character.count += count;
      character.has_neighbours |= points.size() > 1;
    }
  }
  if (static_cast<std::int64_t>(alphabet.size()) <= most) return alphabet;
  std::vector<std::pair<char32_t, Character>> sorted(alphabet.begin(), alphabet.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.count > b.second.count; });
  return Alphabet(sorted.begin(), sorted.begin() + most);
}

// Numbers of the alphabet's pieces: at a word's beginning, and within it.
struct CharacterPieces {
  std::unordered_map<char32_t, std::int32_t> first, rest;
};

CharacterPieces add_alphabet(const Alphabet& alphabet, PieceMerger* merger) {
  CharacterPieces pieces;
  for (const auto& [point, character] : alphabet) {
    std::string token;
    append_utf8(&token, point);
    pieces.first[point] = merger->add_piece(token);
    if (character.has_neighbours) pieces.rest[point] = merger->add_piece(std::string(kContinues) + token);
  }
  return pieces;
}

// In order of their bytes, which no hash has a say in.
void add_words(const WordCounts& counts, const CharacterPieces& characters, PieceMerger* merger) {
  std::vector<std::pair<std::string_view, std::int64_t>> words(counts.begin(), counts.end());
  std::sort(words.begin(), words.end());
  std::vector<std::int32_t> pieces;
  for (const auto& [word, count] : words) {
    const std::u32string points = code_points(word);
    if (points.size() > kLongestWord) continue;
    pieces.clear();
    for (const char32_t point : points) {
      const auto& numbers = pieces.empty() ? characters.first : characters.rest;
      const auto number = numbers.find(point);
      if (number == numbers.end()) break;
      pieces.push_back(number->second);
    }
    if (pieces.size() == points.size()) merger->add_word(pieces, count);
  }
}

}  // namespace

Vocabulary learn_vocabulary(const TextCorpus& corpus, const LearnerOptions& options) {
  if (options.min_frequency < 1)
    core::fail("vocabulary: a minimum frequency of {}, needed 1 or more", options.min_frequency);
  if (options.alphabet < 1) core::fail("vocabulary: an alphabet of {}, needed 1 character or more", options.alphabet);
  const WordCounts words = count_words(corpus, options.words);
  PieceMerger merger;
  for (const std::string_view special : kSpecialTokens) merger.add_piece(std::string(special));
  const CharacterPieces characters = add_alphabet(find_alphabet(words, options.alphabet), &merger);
  if (merger.size() > options.size)
    core::fail(
        "vocabulary: {} tokens are too few for {}: its {} characters, alone and with \"##\", and the special tokens "
        "are {}",
        options.size, corpus.name, characters.first.size(), merger.size());
  add_words(words, characters, &merger);
  while (merger.size() < options.size && merger.merge_most_frequent(options.min_frequency)) {
  }
  return Vocabulary(merger.take_pieces());
}

}  // namespace tandem::data
