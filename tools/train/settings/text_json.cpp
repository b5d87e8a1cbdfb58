#include "tools/train/settings/text_json.h"

#include <fmt/format.h>

#include "tandem/data/text/unicode.h"

namespace tandem::train {
namespace {

constexpr const char* kBytes = "bytes";

std::optional<std::string> from_hexadecimal(const std::string& digits) {
  if (digits.size() % 2 != 0 || digits.find_first_not_of("0123456789abcdef") != digits.npos) return std::nullopt;
  std::string text;
  for (std::size_t i = 0; i < digits.size(); i += 2)
    text += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  return text;
}

}  // namespace

nlohmann::json text_to_json(const std::string& text) {
  if (!data::find_invalid_utf8(text)) return text;
  std::string digits;
  for (const char c : text) digits += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return {{kBytes, digits}};
}

std::optional<std::string> text_from_json(const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_object() || value.size() != 1 || !value.contains(kBytes) || !value[kBytes].is_string())
    return std::nullopt;
  return from_hexadecimal(value[kBytes].get<std::string>());
}

}  // namespace tandem::train
