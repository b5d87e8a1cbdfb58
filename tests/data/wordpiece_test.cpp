#include "tandem/data/text/wordpiece.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "tandem/data/text/wordpiece_words.h"
#include "tests/data/text_samples.h"

namespace tandem::data {
namespace {

using Ids = std::vector<std::int32_t>;

Vocabulary vocabulary_with(const std::vector<std::string>& pieces) {
  std::vector<std::string> tokens(kSpecialTokens.begin(), kSpecialTokens.end());
  tokens.insert(tokens.end(), pieces.begin(), pieces.end());
  return Vocabulary(std::move(tokens));
}

std::string from_hex(const std::string& digits) {
  std::string bytes;
  for (std::size_t i = 0; i < digits.size(); i += 2)
    bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  return bytes;
}

// tests/golden/make_wordpiece_golden.py
TEST(WordPiece, IsBertTokenizerFast) {
  std::ifstream file(TANDEM_TEST_DATA "/wordpiece.json");
  const auto golden = nlohmann::json::parse(file);
  const Vocabulary vocabulary(golden["vocabulary"].get<std::vector<std::string>>());
  int special_cases = 0;
  for (const bool lower_case : {true, false}) {
    const std::string name = lower_case ? "uncased" : "cased";
    const WordOptions words = lower_case ? kUncased : kCased;
    const WordPiece ordinary(vocabulary, {.words = words});
    const WordPiece special(vocabulary, {.words = words, .special_in_text = true});
    for (const auto& one : golden["cases"]) {
      const std::string text = one.contains("text") ? one["text"].get<std::string>() : from_hex(one["bytes"]);
      EXPECT_EQ(ordinary.encode(text), one[name].get<Ids>()) << name << ": " << one;
      const bool differs = one.contains(name + "_special");
      EXPECT_EQ(special.encode(text), one[differs ? name + "_special" : name].get<Ids>()) << name << ": " << one;
      special_cases += differs;
    }
  }
  EXPECT_GT(golden["cases"].size(), 300u);
  EXPECT_GT(special_cases, 10);
}

TEST(WordPiece, LongestPieceFirst) {
  const WordPiece tokenizer(vocabulary_with({"un", "unaff", "##able", "##aff", "##a", "##ff", "!", "una"}));
  EXPECT_EQ(tokenizer.encode("unaffable!"), (Ids{6, 7, 11}));
  EXPECT_EQ(tokenizer.encode("unaff unaffff"), (Ids{6, 6, 10}));
  EXPECT_EQ(tokenizer.encode("unaffx un"), (Ids{1, 5}));  // a rest without a piece: the whole word is unknown
  EXPECT_EQ(tokenizer.encode("able"), (Ids{1}));          // no piece begins a word so
  EXPECT_EQ(tokenizer.encode("unaf"), (Ids{1}));          // "una" is taken, and never given back
  EXPECT_EQ(tokenizer.encode(""), Ids{});
  EXPECT_EQ(tokenizer.encode("\x01 \xff"), Ids{});
  Ids appended{42};
  tokenizer.encode("un", &appended);
  EXPECT_EQ(appended, (Ids{42, 5}));
}

TEST(WordPiece, LongWordsAreUnknown) {
  const WordPiece tokenizer(vocabulary_with({"a", "##a", "\u00df", "##\u00df"}));
  EXPECT_EQ(tokenizer.encode(std::string(100, 'a')).size(), 100u);
  EXPECT_EQ(tokenizer.encode(std::string(101, 'a')), Ids{1});
  std::string sharp;
  for (int i = 0; i < 100; ++i) sharp += "\u00df";
  EXPECT_EQ(tokenizer.encode(sharp).size(), 100u);  // code points count, not bytes
  EXPECT_EQ(tokenizer.encode(sharp + "a"), Ids{1});
}

TEST(WordPiece, SpecialTokensInTheText) {
  const Vocabulary vocabulary = vocabulary_with({"[", "]", "mask", "a"});
  const std::string text = "a[MASK] [mask] [MASK[SEP]";
  EXPECT_EQ(WordPiece(vocabulary).encode(text), (Ids{8, 5, 7, 6, 5, 7, 6, 5, 7, 5, 1, 6}));
  EXPECT_EQ(WordPiece(vocabulary, {.special_in_text = true}).encode(text), (Ids{8, 4, 5, 7, 6, 5, 7, 3}));
}

// Against a search that tries all lengths, longest first.
TEST(WordPiece, IsTheNaiveSearch) {
  std::mt19937 random(3);
  const auto word = [&](std::size_t most) {
    std::string letters(1 + random() % most, 'a');
    for (char& letter : letters) letter = static_cast<char>('a' + random() % 3);
    return letters;
  };
  std::vector<std::string> pieces;
  for (int i = 0; i < 60; ++i) pieces.push_back((random() % 2 ? "##" : "") + word(5));
  std::sort(pieces.begin(), pieces.end());
  pieces.erase(std::unique(pieces.begin(), pieces.end()), pieces.end());
  const WordPiece tokenizer(vocabulary_with(pieces));
  int whole = 0;
  for (int i = 0; i < 2000; ++i) {
    const std::string text = word(12);
    Ids expected;
    for (std::size_t at = 0, length = 0; at < text.size(); at += length) {
      std::optional<std::int32_t> found;
      for (length = text.size() - at; length > 0; --length)
        if ((found = tokenizer.vocabulary().find((at ? "##" : "") + text.substr(at, length)))) break;
      if (!found) {
        expected = {1};
        break;
      }
      expected.push_back(*found);
    }
    ASSERT_EQ(tokenizer.encode(text), expected) << text;
    whole += expected.size() > 1;
  }
  EXPECT_GT(whole, 100);
}

}  // namespace
}  // namespace tandem::data
