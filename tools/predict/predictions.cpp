#include "tools/predict/predictions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "tandem/core/files/safetensors.h"

namespace tandem::predict {
namespace {

std::string quoted(const std::string& field) {
  if (field.find_first_of(",\"\r\n") == field.npos) return field;
  std::string text = "\"";
  for (const char c : field) text += c == '"' ? "\"\"" : std::string(1, c);
  return text + "\"";
}

std::string as_json(const std::vector<std::string>& names) {
  return nlohmann::json(names).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

core::Tensor probabilities(const Predictions& predictions) {
  core::Tensor result = predictions.logits.clone();
  const std::int64_t rows = result.size(0), columns = result.size(1);
  float* row = result.mutable_data<float>();
  for (std::int64_t r = 0; r < rows; ++r, row += columns) {
    const double largest = *std::max_element(row, row + columns);
    double sum = 0;
    for (std::int64_t c = 0; c < columns; ++c) sum += std::exp(row[c] - largest);
    for (std::int64_t c = 0; c < columns; ++c) row[c] = static_cast<float>(std::exp(row[c] - largest) / sum);
  }
  return result;
}

std::string to_csv(const Predictions& predictions, std::int64_t top) {
  const bool has_masks = !predictions.masks.empty();
  std::string text = has_masks ? "input,mask,rank,word,probability\n" : "input,rank,class,probability\n";
  const core::Tensor shares = probabilities(predictions);
  const std::int64_t columns = shares.size(1);
  const float* row = shares.data<float>();
  std::vector<std::int64_t> order(static_cast<std::size_t>(columns));
  const std::int64_t shown = std::min(top, columns);
  for (std::size_t r = 0; r < predictions.inputs.size(); ++r, row += columns) {
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + shown, order.end(),
                      [row](std::int64_t a, std::int64_t b) { return row[a] != row[b] ? row[a] > row[b] : a < b; });
    for (std::int64_t rank = 0; rank < shown; ++rank) {
      const std::int64_t column = order[static_cast<std::size_t>(rank)];
      text += quoted(predictions.inputs[r]) + ",";
      if (has_masks) text += fmt::format("{},", predictions.masks[r]);
      text += fmt::format("{},{},{:.6f}\n", rank + 1, quoted(predictions.classes[static_cast<std::size_t>(column)]),
                          row[column]);
    }
  }
  return text;
}

void save_safetensors(const std::string& path, const Predictions& predictions) {
  core::save_safetensors(path, {{"logits", predictions.logits}, {"probabilities", probabilities(predictions)}},
                         {{"classes", as_json(predictions.classes)}, {"inputs", as_json(predictions.inputs)}});
}

}  // namespace tandem::predict
