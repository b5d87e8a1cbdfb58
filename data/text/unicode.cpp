#include "tandem/data/text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>

namespace tandem::data {
namespace {

utf8proc_int32_t signed_code(char32_t code_point) { return static_cast<utf8proc_int32_t>(code_point); }

}  // namespace

std::optional<char32_t> next_code_point(std::string_view text, std::size_t* at) {
  utf8proc_int32_t code_point = 0;
  const std::size_t length = std::min<std::size_t>(text.size() - *at, 4);
  const utf8proc_ssize_t used = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data() + *at),
                                                 static_cast<utf8proc_ssize_t>(length), &code_point);
  *at += used > 0 ? static_cast<std::size_t>(used) : 1;
  if (used <= 0) return std::nullopt;
  return static_cast<char32_t>(code_point);
}

void append_utf8(std::string* to, char32_t code_point) {
  std::array<utf8proc_uint8_t, 4> bytes;
  const utf8proc_ssize_t size = utf8proc_encode_char(signed_code(code_point), bytes.data());
  to->append(reinterpret_cast<const char*>(bytes.data()), static_cast<std::size_t>(size));
}

std::size_t count_code_points(std::string_view text) {
  const auto begins = [](char byte) { return (byte & 0xc0) != 0x80; };
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), begins));
}

std::optional<std::size_t> find_invalid_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    if (static_cast<unsigned char>(text[at]) < 0x80)
      ++at;
    else if (!next_code_point(text, &at))
      return begin;
  }
  return std::nullopt;
}

CharacterKind kind_of(char32_t code_point) {
  switch (utf8proc_category(signed_code(code_point))) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CO: return CharacterKind::ignored;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: return CharacterKind::space;
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO: return CharacterKind::punctuation;
    case UTF8PROC_CATEGORY_MN: return CharacterKind::nonspacing_mark;
    default: return CharacterKind::other;
  }
}

char32_t to_lower(char32_t code_point) { return static_cast<char32_t>(utf8proc_tolower(signed_code(code_point))); }

void decompose(char32_t code_point, std::vector<Decomposed>* to) {
  std::array<utf8proc_int32_t, 16> parts;  // no canonical decomposition has more than four
  int unused = 0;
  const utf8proc_ssize_t count =
      utf8proc_decompose_char(signed_code(code_point), parts.data(), parts.size(), UTF8PROC_DECOMPOSE, &unused);
  for (utf8proc_ssize_t i = 0; i < count; ++i) {
    const utf8proc_int32_t part = parts[static_cast<std::size_t>(i)];
    to->push_back({static_cast<char32_t>(part), utf8proc_get_property(part)->combining_class});
  }
}

}  // namespace tandem::data
