// Layer normalisation over the last dimension. Source: Ba, Kiros and Hinton, "Layer normalization", 2016.
#pragma once

#include "tandem/nn/dropout.h"

namespace tandem::nn {

/// weight [D], at first 1, and bias [D], at first 0.
class LayerNorm final : public Module {
 public:
  explicit LayerNorm(std::int64_t features, double eps = 1e-5);
  /// [..., D] -> [..., D]
  Variable forward(const Variable& x) override;
  /// forward(residual + dropout(x)), in one operator: how a block of a transformer ends.
  Variable forward_add(const Variable& x, const Variable& residual, Dropout& dropout);

  const Variable& weight() const { return weight_; }
  const Variable& bias() const { return bias_; }
  double eps() const { return eps_; }

 private:
  Variable weight_, bias_;
  double eps_;
};

}  // namespace tandem::nn
