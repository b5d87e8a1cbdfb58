// Text in columns.
#pragma once

#include <string>
#include <vector>

namespace tandem::train {

enum class Align : unsigned char { left, right };

class TextTable {
 public:
  /// One for each column.
  explicit TextTable(std::vector<Align> columns) : columns_(std::move(columns)) {}

  /// As many cells as columns.
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  /// Columns as wide as their widest cell, two spaces between them and two before the first; no spaces at lines' ends.
  std::string str() const;

 private:
  std::vector<Align> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace tandem::train
