// BERT's basic tokenizer: a text becomes words, of which the vocabulary's pieces are then made (wordpiece.h).
//
// Source: Devlin, Chang, Lee, Toutanova, "BERT", 2019, and github.com/google-research/bert, tokenization.py,
// BasicTokenizer. docs/text.md lists the few characters that Hugging Face's tokenizers takes for something else.
#pragma once

#include <string>
#include <string_view>

namespace tandem::data {

/// What a vocabulary's words were made with, and so all of its text: the switches of Hugging Face's BertNormalizer.
struct WordOptions {
  bool lower_case = true;
  bool strip_accents = true;
  bool chinese_characters = true;  ///< each is a word of its own
  bool clean_text = true;          ///< without control and format characters

  bool operator==(const WordOptions&) const = default;
};
/// Of an "uncased" vocabulary, and of one that has capitals and accents.
inline constexpr WordOptions kUncased{};
inline constexpr WordOptions kCased{.lower_case = false, .strip_accents = false};

/// Appends the words of `text` to `words`, each followed by one space; words themselves hold none. In this order:
///
/// 1. Bytes that are not UTF-8 are dropped, with `clean_text` also U+0000, U+FFFD, control and format characters and
///    private use. Tab, newline and carriage return are spaces, as all other white space is.
/// 2. With `chinese_characters` a CJK ideograph (not Kana nor Hangul) is a word of its own.
/// 3. With `strip_accents`: canonical decomposition (NFD, so Hangul becomes Jamo), nonspacing marks (Mn) dropped.
/// 4. With `lower_case`: lower case, character by character.
/// 5. A punctuation character is a word of its own: all that ASCII prints but letters and digits, and Unicode's P*.
///
/// Takes time in proportion to the text, whatever is in it.
void append_words(std::string_view text, const WordOptions& options, std::string* words);

/// Calls f(std::string_view) for each word of what append_words() made.
template <class F>
void for_each_word(std::string_view words, F&& f) {
  for (std::size_t begin = 0; begin < words.size();) {
    const std::size_t end = words.find(' ', begin);
    f(words.substr(begin, end - begin));
    begin = end + 1;
  }
}

}  // namespace tandem::data
