#include "tandem/distributed/fields.h"

#include <charconv>

namespace tandem::distributed {

std::string join_fields(const std::vector<std::string>& fields) {
  std::string text;
  for (const std::string& field : fields) text += std::to_string(field.size()) + ':' + field;
  return text;
}

std::optional<std::vector<std::string>> split_fields(std::string_view text) {
  std::vector<std::string> fields;
  while (!text.empty()) {
    const std::size_t colon = text.find(':');
    if (colon == std::string_view::npos) return std::nullopt;
    const auto size = parse_number(text.substr(0, colon));
    text.remove_prefix(colon + 1);
    if (!size || *size < 0 || static_cast<std::uint64_t>(*size) > text.size()) return std::nullopt;
    fields.emplace_back(text.substr(0, static_cast<std::size_t>(*size)));
    text.remove_prefix(static_cast<std::size_t>(*size));
  }
  return fields;
}

std::optional<std::int64_t> parse_number(std::string_view text) {
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, number);
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return number;
}

std::string one_line(std::string text, std::size_t limit) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  if (text.size() > limit) text = text.substr(0, limit) + "...";
  return text;
}

}  // namespace tandem::distributed
