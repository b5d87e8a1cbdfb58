#include "tandem/models/deep_mlp.h"

namespace tandem::models {

using namespace autograd;  // NOLINT: the operators are this file's vocabulary

DeepMlp::DeepMlp(core::Generator& random, std::int64_t in_features, std::int64_t classes) {
  const std::int64_t widths[] = {in_features, 2000, 2000, 2000, 2000, 2000, 2000, 2000, classes};
  for (std::size_t i = 0; i + 1 < std::size(widths); ++i) {
    layers_.push_back(std::make_unique<nn::Linear>(widths[i], widths[i + 1], random));
    register_module(fmt::format("fc{}", i + 1), *layers_.back());
  }
}

Variable DeepMlp::forward(const Variable& x) {
  Variable h = flatten(x);
  for (std::size_t i = 0; i + 1 < layers_.size(); ++i) h = relu(layers_[i]->forward(h));
  return layers_.back()->forward(h);
}

}  // namespace tandem::models
