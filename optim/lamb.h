// LAMB: Adam with decoupled weight decay, and a rate of its own for each layer, for large batches.
#pragma once

#include "tandem/optim/optimizer.h"

namespace tandem::optim {

struct LambOptions {
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-6;
  double weight_decay = 0.01;
};

/// m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;
/// u = (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps) + weight_decay p, t counting a parameter's own steps;
/// p -= lr |p| / |u| u, norms over one parameter; where |p| or |u| is 0, and in groups with `adapt` false: p -= lr u.
/// Source: You et al., "Large batch optimization for deep learning: training BERT in 76 minutes", ICLR 2020,
/// algorithm 2 with phi(z) = z. Of the forms in circulation it is the one with bias correction and without a bound on
/// |p|. Numbers are those of timm's Lamb(max_grad_norm=None, always_adapt=True) and NVIDIA apex's
/// FusedLAMB(max_grad_norm=0, use_nvlamb=True); both clip the gradients' norm at 1 unless told otherwise
/// (optim/clip_grad.h does that here).
class Lamb final : public Optimizer {
 public:
  Lamb(std::vector<ParameterGroup> groups, const LambOptions& options);
  Lamb(std::vector<Variable> parameters, const LambOptions& options)
      : Lamb(one_group(std::move(parameters)), options) {}
  void step() override;

 private:
  LambOptions options_;
};

}  // namespace tandem::optim
