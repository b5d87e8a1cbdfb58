// Numbers as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace tandem::train {

/// "1,199,882".
std::string with_commas(std::int64_t number);

}  // namespace tandem::train
