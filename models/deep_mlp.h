// A multilayer perceptron of eight layers, 784 pixels, seven times 2000 hidden units, 10 classes: 25,602,010 parameters
// in equal pieces. Much to send for little to compute: what communication is measured with.
#pragma once

#include <memory>
#include <vector>

#include "tandem/nn/linear.h"

namespace tandem::models {

class DeepMlp final : public nn::Module {
 public:
  explicit DeepMlp(core::Generator& random, std::int64_t in_features = 784, std::int64_t classes = 10);
  /// [N, ...] with in_features values a sample -> logits [N, classes]
  nn::Variable forward(const nn::Variable& x) override;

 private:
  std::vector<std::unique_ptr<nn::Linear>> layers_;
};

}  // namespace tandem::models
