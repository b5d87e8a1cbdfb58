// Stochastic gradient descent with momentum, as PyTorch defines it.
#pragma once

#include "tandem/optim/optimizer.h"

namespace tandem::optim {

struct SgdOptions {
  double lr = 0.01;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
};

/// g += weight_decay p;  b = momentum b + (1 - dampening) g  (b = g at a parameter's first step);
/// p -= lr (nesterov ? g + momentum b : b).  Sutskever et al., 2013, in PyTorch's form: the rate is applied to the
/// velocity.
class Sgd final : public Optimizer {
 public:
  Sgd(std::vector<ParameterGroup> groups, const SgdOptions& options);
  Sgd(std::vector<Variable> parameters, const SgdOptions& options) : Sgd(one_group(std::move(parameters)), options) {}
  void step() override;

 private:
  SgdOptions options_;
};

}  // namespace tandem::optim
