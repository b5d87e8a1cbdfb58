#include "tandem/data/text/wordpiece.h"

#include <algorithm>

#include "tandem/data/text/unicode.h"

namespace tandem::data {

WordPiece::WordPiece(Vocabulary vocabulary, const WordPieceOptions& options)
    : vocabulary_(std::move(vocabulary)), options_(options) {
  std::vector<std::pair<std::string_view, std::int32_t>> first, rest;
  for (std::int32_t number = 0; number < vocabulary_.size(); ++number) {
    const std::string_view token = vocabulary_.token(number);
    first.emplace_back(token, number);
    if (token.size() > kContinues.size() && token.starts_with(kContinues))
      rest.emplace_back(token.substr(kContinues.size()), number);
  }
  first_ = PieceTrie(std::move(first));
  rest_ = PieceTrie(std::move(rest));
}

std::vector<std::int32_t> WordPiece::encode(std::string_view text) const {
  std::vector<std::int32_t> tokens;
  encode(text, &tokens);
  return tokens;
}

void WordPiece::encode(std::string_view text, std::vector<std::int32_t>* tokens) const {
  std::size_t begin = 0;
  for (std::size_t at = 0; options_.special_in_text && (at = text.find('[', at)) != std::string_view::npos;) {
    const auto* special = std::find_if(kSpecialTokens.begin(), kSpecialTokens.end(),
                                       [&](std::string_view token) { return text.substr(at).starts_with(token); });
    if (special == kSpecialTokens.end()) {
      ++at;
      continue;
    }
    encode_ordinary(text.substr(begin, at - begin), tokens);
    tokens->push_back(*vocabulary_.find(*special));
    begin = at += special->size();
  }
  encode_ordinary(text.substr(begin), tokens);
}

void WordPiece::encode_ordinary(std::string_view text, std::vector<std::int32_t>* tokens) const {
  std::string words;
  words.reserve(text.size() + text.size() / 4 + 2);
  append_words(text, options_.words, &words);
  for_each_word(words, [&](std::string_view word) { encode_word(word, tokens); });
}

void WordPiece::encode_word(std::string_view word, std::vector<std::int32_t>* tokens) const {
  const std::size_t before = tokens->size();
  bool whole = word.size() <= kLongestWord || count_code_points(word) <= kLongestWord;
  for (std::size_t at = 0; whole && at < word.size();) {
    const PieceTrie::Match match = (at == 0 ? first_ : rest_).longest(word.substr(at));
    whole = match.length > 0;
    if (whole) tokens->push_back(match.number);
    at += match.length;
  }
  if (whole) return;
  tokens->resize(before);
  tokens->push_back(vocabulary_.special().unk);
}

}  // namespace tandem::data
