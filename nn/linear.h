// A fully connected layer: y = x W^T + b.
#pragma once

#include "tandem/nn/module.h"

namespace tandem::nn {

struct LinearOptions {
  bool bias = true;
  /// The weight begins normal with this deviation, the bias at 0; 0: PyTorch's default, both uniform (nn/init.h).
  double init_deviation = 0;
};

/// weight [out, in], bias [out].
class Linear final : public Module {
 public:
  Linear(std::int64_t in_features, std::int64_t out_features, Generator& random, LinearOptions options = {});
  /// [..., in] -> [..., out]
  Variable forward(const Variable& x) override;

  const Variable& weight() const { return weight_; }
  const Variable& bias() const { return bias_; }

 private:
  Variable weight_, bias_;
};

}  // namespace tandem::nn
