#include "tandem/data/text/wordpiece_words.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace tandem::data {
namespace {

std::string words(std::string_view text, const WordOptions& options = kUncased) {
  std::string result;
  append_words(text, options, &result);
  return result;
}

TEST(WordPieceWords, CleansAndSplits) {
  EXPECT_EQ(words(""), "");
  EXPECT_EQ(words(" \t\r\n\u00a0\u3000"), "");
  EXPECT_EQ(words(" Hello,\tWorld!\u2003x "), "hello , world ! x ");
  EXPECT_EQ(words("a$b|c_d~"), "a $ b | c _ d ~ ");
  EXPECT_EQ(words("\u00bfqu\u00e9\u2026?"), "\u00bf que \u2026 ? ");
  EXPECT_EQ(words("5\u20ac \u00b1\u221e"), "5\u20ac \u00b1\u221e ");  // symbols are no punctuation
  EXPECT_EQ(words(std::string_view("a\0b\x01\x7f\xc2\x85 c\xef\xbf\xbd\xe2\x80\x8b", 16)), "ab c ");
  EXPECT_EQ(words("a\xff\x80"
                  "b\xed\xa0\x80"),
            "ab ");                           // as if U+FFFD stood there
  EXPECT_EQ(words("a\u0378b"), "a\u0378b ");  // unassigned, perhaps only so far
}

// Of tokenizers' BertNormalizer and BertPreTokenizer: lower case, strip accents, Chinese characters, clean text.
TEST(WordPieceWords, EachSwitchAlone) {
  const std::string text =
      "\u00c9a\u0301\u0130 \u4e2d\u6587b A\u200bB\x0b"
      "C\xc2\x85"
      "D\ufffd\x01"
      "e\uac00\u1e9e\uf900!";
  const std::vector<std::pair<WordOptions, std::string>> expected{
      {{true, true, true, true}, "eai \u4e2d \u6587 b abcde\u1100\u1161\u00df \u8c48 ! "},
      {{true, true, true, false},
       "eai \u4e2d \u6587 b a\u200bb c d\ufffd\x01"
       "e\u1100\u1161\u00df \u8c48 ! "},
      {{true, true, false, true}, "eai \u4e2d\u6587b abcde\u1100\u1161\u00df\u8c48 ! "},
      {{true, true, false, false},
       "eai \u4e2d\u6587b a\u200bb c d\ufffd\x01"
       "e\u1100\u1161\u00df\u8c48 ! "},
      {{true, false, true, true}, "\u00e9a\u0301i\u0307 \u4e2d \u6587 b abcde\uac00\u00df \uf900 ! "},
      {{true, false, true, false},
       "\u00e9a\u0301i\u0307 \u4e2d \u6587 b a\u200bb c d\ufffd\x01"
       "e\uac00\u00df \uf900 ! "},
      {{true, false, false, true}, "\u00e9a\u0301i\u0307 \u4e2d\u6587b abcde\uac00\u00df\uf900 ! "},
      {{true, false, false, false},
       "\u00e9a\u0301i\u0307 \u4e2d\u6587b a\u200bb c d\ufffd\x01"
       "e\uac00\u00df\uf900 ! "},
      {{false, true, true, true}, "EaI \u4e2d \u6587 b ABCDe\u1100\u1161\u1e9e \u8c48 ! "},
      {{false, true, true, false},
       "EaI \u4e2d \u6587 b A\u200bB C D\ufffd\x01"
       "e\u1100\u1161\u1e9e \u8c48 ! "},
      {{false, true, false, true}, "EaI \u4e2d\u6587b ABCDe\u1100\u1161\u1e9e\u8c48 ! "},
      {{false, true, false, false},
       "EaI \u4e2d\u6587b A\u200bB C D\ufffd\x01"
       "e\u1100\u1161\u1e9e\u8c48 ! "},
      {{false, false, true, true}, "\u00c9a\u0301\u0130 \u4e2d \u6587 b ABCDe\uac00\u1e9e \uf900 ! "},
      {{false, false, true, false},
       "\u00c9a\u0301\u0130 \u4e2d \u6587 b A\u200bB C D\ufffd\x01"
       "e\uac00\u1e9e \uf900 ! "},
      {{false, false, false, true}, "\u00c9a\u0301\u0130 \u4e2d\u6587b ABCDe\uac00\u1e9e\uf900 ! "},
      {{false, false, false, false},
       "\u00c9a\u0301\u0130 \u4e2d\u6587b A\u200bB C D\ufffd\x01"
       "e\uac00\u1e9e\uf900 ! "}};
  for (const auto& [options, its_words] : expected)
    EXPECT_EQ(words(text, options), its_words)
        << options.lower_case << options.strip_accents << options.chinese_characters << options.clean_text;
}

TEST(WordPieceWords, LowerCaseStripsAccents) {
  EXPECT_EQ(words("\u00c9lan NA\u00cfVE \u1e9e\u00df"), "elan naive \u00df\u00df ");
  EXPECT_EQ(words("\u0130stanbul \u0131"), "istanbul \u0131 ");
  EXPECT_EQ(words("\u039f\u0394\u03a5\u03a3\u03a3\u0395\u03a5\u03a3"),
            "\u03bf\u03b4\u03c5\u03c3\u03c3\u03b5\u03c5\u03c3 ");
  EXPECT_EQ(words("\ud55c"), "\u1112\u1161\u11ab ");
  EXPECT_EQ(words("\u0301\u0302"), "");
  EXPECT_EQ(words("\u037e"), "; ");  // the Greek question mark is a semicolon
  // Canonical order: of marks that stay, class 224 goes before 226, and a nonspacing one of class 0 separates them.
  EXPECT_EQ(words("a\U0001d16d\u302e"), "a\u302e\U0001d16d ");
  EXPECT_EQ(words(std::string("a\U0001d16d") + '\0' + "\u0301\u302e"), "a\u302e\U0001d16d ");
  EXPECT_EQ(words("a\U0001d16d\u034f\u302e"), "a\U0001d16d\u302e ");
}

TEST(WordPieceWords, CasedKeepsThem) {
  EXPECT_EQ(words("\u00c9lan e\u0301 \ud55c!", kCased), "\u00c9lan e\u0301 \ud55c ! ");
  EXPECT_EQ(words("a\u4e2d\u6587b", kCased), "a \u4e2d \u6587 b ");
}

TEST(WordPieceWords, ChineseCharactersStandAlone) {
  EXPECT_EQ(words("\u4e2d\u6587\u304b\u306a"), "\u4e2d \u6587 \u304b\u306a ");
  EXPECT_EQ(words("x\uf900y"), "x \u8c48 y ");  // a compatibility ideograph, decomposed
  EXPECT_EQ(words("\U0002b820\U0002b821"), "\U0002b820 \U0002b821 ");
  EXPECT_EQ(words("\u4e2d\u0301\u6587"), "\u4e2d \u6587 ");
}

// A quadratic algorithm would need hours.
TEST(WordPieceWords, TakesLinearTime) {
  std::string marks = "a";
  for (int i = 0; i < 300'000; ++i) marks += i % 2 ? "\u302e" : "\U0001d16d";
  EXPECT_EQ(words(marks).size(), marks.size() + 1);
  EXPECT_EQ(words(std::string(5'000'000, '\xf0')), "");
  EXPECT_EQ(words(std::string(5'000'000, 'A')), std::string(5'000'000, 'a') + " ");
}

TEST(WordPieceWords, ForEachWord) {
  std::vector<std::string> seen;
  for_each_word("ab , c ", [&](std::string_view word) { seen.emplace_back(word); });
  EXPECT_EQ(seen, (std::vector<std::string>{"ab", ",", "c"}));
  for_each_word("", [](std::string_view) { FAIL(); });
}

}  // namespace
}  // namespace tandem::data
