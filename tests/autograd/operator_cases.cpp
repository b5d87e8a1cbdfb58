#include "tests/autograd/operator_cases.h"

#include <cmath>
#include <limits>

#include "tandem/core/random.h"
#include "tests/elements.h"

namespace tandem::autograd::testing {

const std::vector<OperatorCase>& operator_cases() {
  static const std::vector<OperatorCase> all = [] {
    std::vector<OperatorCase> joined;
    for (auto family : {elementwise_cases(), matrix_cases(), pooling_cases(), normalization_cases(),
                        transformer_cases(), movement_cases()})
      joined.insert(joined.end(), family.begin(), family.end());
    return joined;
  }();
  return all;
}

Tensor arranged(const Tensor& values, Layout layout) {
  const int rank = values.rank();
  const core::TensorOptions options = values.options();
  Shape shape = values.shape();
  Tensor result;
  switch (layout) {
    case Layout::contiguous: return values.clone().contiguous();
    case Layout::channels_last: return values.clone().contiguous(core::MemoryFormat::channels_last);
    case Layout::transposed:  // the last two dimensions have changed places in memory
      std::swap(shape[rank - 1], shape[rank - 2]);
      result = Tensor::empty(shape, options).transpose(-1, -2);
      break;
    case Layout::sliced:  // from the middle of something larger: an offset, and gaps between the rows
      shape[rank - 1] += 3;
      result = Tensor::full(shape, 1e3, options).slice(-1, 2, 2 + values.size(-1));
      break;
    case Layout::stepped:  // every second element of every second row
      for (int dim = std::max(0, rank - 2); dim < rank; ++dim) shape[dim] *= 2;
      result = Tensor::full(shape, 1e3, options);
      for (int dim = std::max(0, rank - 2); dim < rank; ++dim) result = result.slice(dim, 1, shape[dim], 2);
      break;
  }
  result.copy_from(values);
  return result;
}

Tensor make_values(const InputSpec& spec, int seed) {
  const std::int64_t n = core::numel(spec.shape);
  const auto order =
      core::random_permutation(n, core::RandomContext{.seed = 17}.stream(static_cast<std::uint32_t>(seed)));
  const auto count = static_cast<double>(std::max<std::int64_t>(n, 1));
  std::vector<double> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double place = (static_cast<double>(order[i]) + 0.37) / count;  // in (0, 1), evenly apart
    values[i] = spec.positive ? 0.3 + 2.2 * place : 4 * place - 2.003;
  }
  return Tensor::from(values, spec.shape);
}

Tensor make_indices(const Shape& shape, std::int64_t bound) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(core::numel(shape)));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = (7 * static_cast<std::int64_t>(i) + 3) % bound;
  return Tensor::from(values, shape);
}

Tensor make_condition(const Shape& shape) {
  Tensor condition = Tensor::empty(shape, {.dtype = DType::boolean});
  testing::change<bool>(condition, [&](bool* c) {
    for (std::int64_t i = 0; i < condition.numel(); ++i) c[i] = i % 3 == 0;
  });
  return condition;
}

Tensor make_ramp(std::int64_t n, double first, double step, DType dtype) {
  std::vector<double> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = first + step * static_cast<double>(i);
  return Tensor::from(values).to(dtype);
}

double largest_difference(const Tensor& actual, const Tensor& expected) {
  const auto a = actual.to_vector<double>(), e = expected.to_vector<double>();
  if (a.size() != e.size()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == e[i] || (std::isnan(a[i]) && std::isnan(e[i]))) continue;
    const double difference = std::abs(a[i] - e[i]);
    largest = std::max(largest, std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference);
  }
  return largest;
}

double largest_magnitude(const Tensor& tensor) {
  double largest = 0;
  for (const double value : tensor.to_vector<double>())
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  return largest;
}

}  // namespace tandem::autograd::testing
