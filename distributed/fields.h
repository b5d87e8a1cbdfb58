// Several texts in one value of the store: "3:abc2:xy". Reading trusts nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::distributed {

std::string join_fields(const std::vector<std::string>& fields);
/// None where `text` is something else.
std::optional<std::vector<std::string>> split_fields(std::string_view text);
/// The whole of `text` as a decimal number; none where it is something else or does not fit.
std::optional<std::int64_t> parse_number(std::string_view text);
/// One line: control characters become spaces, and what is longer than `limit` bytes is cut and ends in "...".
std::string one_line(std::string text, std::size_t limit);

}  // namespace tandem::distributed
