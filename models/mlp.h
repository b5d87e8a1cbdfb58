// A multilayer perceptron with two layers: 784 pixels, 256 hidden units, 10 classes.
#pragma once

#include "tandem/nn/linear.h"

namespace tandem::models {

class Mlp final : public nn::Module {
 public:
  explicit Mlp(core::Generator& random, std::int64_t in_features = 784, std::int64_t hidden = 256,
               std::int64_t classes = 10);
  /// [N, ...] with in_features values a sample -> logits [N, classes]
  nn::Variable forward(const nn::Variable& x) override;

 private:
  nn::Linear fc1_, fc2_;
};

}  // namespace tandem::models
