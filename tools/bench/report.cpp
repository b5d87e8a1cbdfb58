#include "tools/bench/report.h"

#include <fmt/core.h>

#include <algorithm>

#include "tandem/core/error.h"
#include "tandem/core/files/file.h"

namespace tandem::bench {

void print_table(const Row& header, const std::vector<Row>& rows) {
  std::vector<std::size_t> widths(header.size(), 0);
  const auto measure = [&](const Row& row) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  };
  const auto print = [&](const Row& row) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i == 0)
        fmt::print("{:<{}}", row[i], widths[i]);
      else
        fmt::print("  {:>{}}", row[i], widths[i]);
    }
    fmt::print("\n");
  };
  measure(header);
  for (const Row& row : rows) measure(row);
  print(header);
  for (const Row& row : rows) print(row);
}

void print_settings(const std::vector<std::pair<std::string, std::string>>& settings) {
  std::size_t width = 0;
  for (const auto& [name, value] : settings) width = std::max(width, name.size());
  for (const auto& [name, value] : settings) fmt::print("{:<{}}  {}\n", name, width, value);
  fmt::print("\n");
  std::fflush(stdout);
}

void write_json(const std::string& path, const Json& json) {
  if (!path.empty()) core::write_file_atomically(path, json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

double median(std::vector<double> values) {
  if (values.empty()) core::fail("bench: nothing was measured");
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

}  // namespace tandem::bench
