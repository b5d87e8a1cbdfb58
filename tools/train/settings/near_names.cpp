#include "tools/train/settings/near_names.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace tandem::train {
namespace {

// Insertions, deletions and replacements that turn one into the other (Levenshtein, 1965).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, replaced}));
    }
  }
  return row.back();
}

}  // namespace

std::vector<std::string> near_names(std::string_view name, const std::vector<std::string>& names) {
  std::vector<std::string> near;
  if (name.size() < 2) return near;
  // Of a short name less may be wrong, or it would be near to everything short.
  const std::size_t limit = std::min(std::max<std::size_t>(2, name.size() / 3), name.size() / 2);
  for (const std::string& other : names) {
    const bool is_part = name.size() >= 3 && other.find(name) != std::string::npos;
    if (is_part || edit_distance(name, other) <= limit) near.push_back(other);
  }
  return near;
}

}  // namespace tandem::train
