// What README's training loops are run on: data whose last window has fewer rows than there are ranks, and what tells
// two trained models apart.
#pragma once

#include <memory>
#include <vector>

#include "tandem/data/synthetic.h"
#include "tandem/nn/module.h"

namespace tandem::docs {

/// Of an update, on all ranks together. It divides by 1, 2 and 3.
inline constexpr std::int64_t kRows = 6;

inline std::shared_ptr<data::Dataset> make_dataset() {
  return std::make_shared<data::Synthetic>(
      data::SyntheticOptions{.size = 3 * kRows + 2, .sample_shape = {1, 28, 28}, .classes = 10});
}

/// A number for each parameter, in which every element counts.
inline std::vector<double> fingerprint(nn::Module& model) {
  std::vector<double> numbers;
  for (const nn::Variable& parameter : model.parameters()) {
    double sum = 0;
    const std::vector<double> values = parameter.data().to_vector<double>();
    for (std::size_t i = 0; i < values.size(); ++i) sum += values[i] * static_cast<double>(1 + i % 7);
    numbers.push_back(sum);
  }
  return numbers;
}

}  // namespace tandem::docs
