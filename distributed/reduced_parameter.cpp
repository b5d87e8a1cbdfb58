#include "tandem/distributed/reduced_parameter.h"

#include <fmt/core.h>

#include <algorithm>

namespace tandem::distributed {

std::string list_names(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 5;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kShown); ++i) text += (i ? ", " : "") + names[i];
  if (names.size() > kShown) text += fmt::format(" and {} more", names.size() - kShown);
  return text;
}

}  // namespace tandem::distributed
