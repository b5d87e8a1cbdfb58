// Text in JSON. A path may hold any bytes, a JSON string UTF-8 only: what is none is kept as {"bytes": "HEXADECIMAL"}.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace tandem::train {

nlohmann::json text_to_json(const std::string& text);
/// None if `value` is neither a string nor such an object.
std::optional<std::string> text_from_json(const nlohmann::json& value);

}  // namespace tandem::train
