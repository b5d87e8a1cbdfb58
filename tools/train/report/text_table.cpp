#include "tools/train/report/text_table.h"

#include <algorithm>

namespace tandem::train {

std::string TextTable::str() const {
  std::vector<std::size_t> widths(columns_.size());
  for (const auto& row : rows_)
    for (std::size_t c = 0; c < widths.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t c = 0; c < widths.size(); ++c) {
      const std::string padding(widths[c] - row[c].size(), ' ');
      line += "  " + (columns_[c] == Align::left ? row[c] + padding : padding + row[c]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace tandem::train
