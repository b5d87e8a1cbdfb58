#include "tandem/nn/init.h"

#include <algorithm>
#include <cmath>

#include "tandem/core/ops/random_fill.h"

namespace tandem::nn {

core::Tensor uniform_by_fan_in(const core::Shape& shape, std::int64_t fan_in, core::Generator& random) {
  core::Tensor weights = core::Tensor::empty(shape);
  const double bound = 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(fan_in, 1)));
  core::fill_uniform(weights, -bound, bound, random.next());
  return weights;
}

core::Tensor normal(const core::Shape& shape, double deviation, core::Generator& random) {
  core::Tensor weights = core::Tensor::empty(shape);
  core::fill_normal(weights, 0, deviation, random.next());
  return weights;
}

core::Tensor normal_by_fan_out(const core::Shape& shape, std::int64_t fan_out, core::Generator& random) {
  return normal(shape, std::sqrt(2 / static_cast<double>(std::max<std::int64_t>(fan_out, 1))), random);
}

}  // namespace tandem::nn
