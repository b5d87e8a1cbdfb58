// Adam, and AdamW with decoupled weight decay, as PyTorch defines them.
#pragma once

#include "tandem/optim/optimizer.h"

namespace tandem::optim {

struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool decoupled_weight_decay = false;  ///< AdamW: p *= 1 - lr weight_decay; otherwise g += weight_decay p
};

/// m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;
/// p -= lr / (1 - beta1^t) m / (sqrt(v / (1 - beta2^t)) + eps), t counting a parameter's own steps.
/// Sources: Kingma and Ba, "Adam", 2015; Loshchilov and Hutter, "Decoupled weight decay regularization", 2019.
class Adam final : public Optimizer {
 public:
  Adam(std::vector<ParameterGroup> groups, const AdamOptions& options);
  Adam(std::vector<Variable> parameters, const AdamOptions& options)
      : Adam(one_group(std::move(parameters)), options) {}
  void step() override;

 private:
  AdamOptions options_;
};

}  // namespace tandem::optim
