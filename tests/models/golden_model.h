// The formulas that tests of whole models share with tests/golden/make_resnet_golden.py: weights and inputs are too
// large for files, and so are gradients.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "tandem/core/fnv1a.h"
#include "tandem/core/tensor.h"

namespace tandem::testing {

/// float64: offset + scale * u, rounded to float32, with u in [-1, 1) a hash of the name and the element's index.
/// Source of the hash: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014 (SplitMix64's
/// finaliser).
inline core::Tensor formula(const std::string& name, const core::Shape& shape, double offset = 0, double scale = 1) {
  std::vector<double> values(static_cast<std::size_t>(core::numel(shape)));
  const std::uint64_t seed = core::fnv1a(name);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint64_t bits = static_cast<std::uint64_t>(i) * 0x9e3779b97f4a7c15u + seed;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
    bits ^= bits >> 31;
    const double uniform = static_cast<double>(bits >> 11) * 0x1p-52 - 1;
    values[i] = static_cast<double>(static_cast<float>(offset + scale * uniform));
  }
  return core::Tensor::from(values, shape);
}

inline double norm(const std::vector<double>& values) {
  double squares = 0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares);
}

/// The norm, and up to 16 elements evenly spread from the first to the last.
inline core::Tensor summary(const core::Tensor& tensor) {
  const auto values = tensor.to_vector<double>();
  const std::size_t count = std::min<std::size_t>(16, values.size());
  std::vector<double> result{norm(values)};
  for (std::size_t i = 0; i < count; ++i)
    result.push_back(values[i * (values.size() - 1) / std::max<std::size_t>(count - 1, 1)]);
  return core::Tensor::from(result);
}

/// Norm of the difference.
inline double distance(const core::Tensor& a, const core::Tensor& b) {
  auto values = a.to_vector<double>();
  const auto others = b.to_vector<double>();
  for (std::size_t i = 0; i < values.size(); ++i) values[i] -= others[i];
  return norm(values);
}

}  // namespace tandem::testing
