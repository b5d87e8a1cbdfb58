#include "tandem/nn/linear.h"

#include "tandem/nn/init.h"

namespace tandem::nn {

Linear::Linear(std::int64_t in_features, std::int64_t out_features, Generator& random, LinearOptions options) {
  const auto initial = [&](const Shape& shape) {
    if (options.init_deviation == 0) return uniform_by_fan_in(shape, in_features, random);
    return shape.rank() == 1 ? Tensor::zeros(shape) : normal(shape, options.init_deviation, random);
  };
  weight_ = register_parameter("weight", initial({out_features, in_features}));
  if (options.bias) bias_ = register_parameter("bias", initial({out_features}));
}

Variable Linear::forward(const Variable& x) { return autograd::linear(x, weight_, bias_); }

}  // namespace tandem::nn
