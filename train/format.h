// Numbers and lists as people read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::train {

/// "1,199,882".
std::string with_commas(std::int64_t number);

/// "a, b, c, d, e, and 7 more": five show what all are like.
std::string first_few(const std::vector<std::string>& all, std::string_view separator = ", ");

}  // namespace tandem::train
