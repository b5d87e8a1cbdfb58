// Names that a mistyped one may have meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tandem::train {

/// Of `names`, in their order, those that differ from `name` in few letters, or hold it. None if it has one letter.
std::vector<std::string> near_names(std::string_view name, const std::vector<std::string>& names);

}  // namespace tandem::train
