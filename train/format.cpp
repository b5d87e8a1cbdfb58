#include "tandem/train/format.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace tandem::train {

std::string with_commas(std::int64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t i = text.size(); i > 3; i -= 3) text.insert(i - 3, 1, ',');
  return text;
}

std::string first_few(const std::vector<std::string>& all, std::string_view separator) {
  constexpr std::int64_t kFew = 5;
  const std::int64_t shown = std::min(kFew, std::ssize(all));
  std::string text = fmt::format("{}", fmt::join(all.begin(), all.begin() + shown, separator));
  if (shown < std::ssize(all)) text += fmt::format("{}and {} more", separator, with_commas(std::ssize(all) - shown));
  return text;
}

}  // namespace tandem::train
