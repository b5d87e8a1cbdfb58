// UTF-8 and the properties of characters, from utf8proc's tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::data {

/// The code point that begins at byte `*at` of `text`, which is before its end; moves `*at` behind it. Where none
/// begins there (a stray or missing continuation byte, an overlong form, a surrogate, above U+10FFFF) none, and `*at`
/// moves by one byte.
std::optional<char32_t> next_code_point(std::string_view text, std::size_t* at);

/// A valid code point's bytes, appended.
void append_utf8(std::string* to, char32_t code_point);

/// Code points of valid UTF-8.
std::size_t count_code_points(std::string_view text);

/// Where `text` is not UTF-8: the first such byte.
std::optional<std::size_t> find_invalid_utf8(std::string_view text);

/// What tokenizers ask about a character.
enum class CharacterKind : std::uint8_t {
  other,           ///< letters, digits, symbols, and code points that Unicode has not assigned
  ignored,         ///< Cc, Cf and Co: control and format characters, private use
  space,           ///< White_Space, as far as it is not Cc
  punctuation,     ///< P*
  nonspacing_mark  ///< Mn: most accents
};
CharacterKind kind_of(char32_t code_point);

/// Simple lower case, the same whatever stands beside it (no final sigma).
char32_t to_lower(char32_t code_point);

/// A code point of a decomposition and its canonical combining class (0: it starts a new character).
struct Decomposed {
  char32_t code_point;
  int combining_class;
};
/// Appends the canonical decomposition of one code point (NFD before reordering), Hangul to its Jamo.
void decompose(char32_t code_point, std::vector<Decomposed>* to);

}  // namespace tandem::data
