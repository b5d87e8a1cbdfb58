#include "tandem/nn/linear.h"

#include "tandem/nn/init.h"

namespace tandem::nn {

Linear::Linear(std::int64_t in_features, std::int64_t out_features, Generator& random, LinearOptions options) {
  weight_ = register_parameter("weight", uniform_by_fan_in({out_features, in_features}, in_features, random));
  if (options.bias) bias_ = register_parameter("bias", uniform_by_fan_in({out_features}, in_features, random));
}

Variable Linear::forward(const Variable& x) { return autograd::linear(x, weight_, bias_); }

}  // namespace tandem::nn
