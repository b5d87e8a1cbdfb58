#include "tandem/data/text/vocabulary.h"

#include <algorithm>
#include <numeric>

#include "tandem/core/files/file.h"
#include "tandem/core/lines.h"
#include "tandem/data/text/unicode.h"

namespace tandem::data {
namespace {

// Without the line's end, and white space before it.
std::string_view trim_end(std::string_view line) {
  const std::size_t last = line.find_last_not_of(" \t\r");
  return line.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

void check_token(const std::string& token, const std::string& where, std::size_t line) {
  if (token.empty()) core::fail("{}, line {}: is empty, needed a token", where, line);
  if (const auto at = find_invalid_utf8(token))
    core::fail("{}, line {}: is not UTF-8 at its byte {}", where, line, *at);
  if (token.find_first_of(std::string_view(" \t\r\n\0", 5)) != std::string::npos)
    core::fail("{}, line {}: a token holds white space or a NUL byte", where, line);
}

}  // namespace

Vocabulary::Vocabulary(std::vector<std::string> tokens, const std::string& where)
    : tokens_(std::move(tokens)), sorted_(tokens_.size()) {
  for (std::size_t i = 0; i < tokens_.size(); ++i) check_token(tokens_[i], where, i + 1);
  std::iota(sorted_.begin(), sorted_.end(), 0);
  const auto token_of = [&](std::int32_t number) -> const std::string& {
    return tokens_[static_cast<std::size_t>(number)];
  };
  std::stable_sort(sorted_.begin(), sorted_.end(), [&](auto a, auto b) { return token_of(a) < token_of(b); });
  const auto twice =
      std::adjacent_find(sorted_.begin(), sorted_.end(), [&](auto a, auto b) { return token_of(a) == token_of(b); });
  if (twice != sorted_.end())
    core::fail("{}, line {}: \"{}\" is there already, in line {}", where, twice[1] + 1, token_of(*twice), *twice + 1);
  const std::array<std::int32_t*, 5> numbers{&special_.pad, &special_.unk, &special_.cls, &special_.sep,
                                             &special_.mask};
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto number = find(kSpecialTokens[i]);
    if (!number)
      core::fail("{}: has no token {}, needed are {}", where, kSpecialTokens[i], "[PAD] [UNK] [CLS] [SEP] [MASK]");
    *numbers[i] = *number;
  }
}

Vocabulary Vocabulary::load(const std::filesystem::path& path) {
  const std::string text = core::read_text_file(path, "a vocabulary", kMostVocabularyBytes);
  std::vector<std::string> tokens;
  core::for_each_line(text, [&](std::string_view line) { tokens.emplace_back(trim_end(line)); });
  return Vocabulary(std::move(tokens), path.string());
}

void Vocabulary::save(const std::filesystem::path& path) const {
  std::string text;
  for (const std::string& token : tokens_) (text += token) += '\n';
  core::write_file_atomically(path, text);
}

const std::string& Vocabulary::token(std::int64_t number) const {
  if (number < 0 || number >= size()) core::fail("vocabulary: there is no token {}, there are {}", number, size());
  return tokens_[static_cast<std::size_t>(number)];
}

std::optional<std::int32_t> Vocabulary::find(std::string_view token) const {
  const auto found = std::lower_bound(sorted_.begin(), sorted_.end(), token, [&](std::int32_t number, auto wanted) {
    return tokens_[static_cast<std::size_t>(number)] < wanted;
  });
  if (found == sorted_.end() || tokens_[static_cast<std::size_t>(*found)] != token) return std::nullopt;
  return *found;
}

}  // namespace tandem::data
