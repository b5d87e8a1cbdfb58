// LARS: stochastic gradient descent with momentum, and a rate of its own for each layer, for large batches.
#pragma once

#include "tandem/optim/optimizer.h"

namespace tandem::optim {

struct LarsOptions {
  double lr = 0.1;
  double momentum = 0.9;
  double weight_decay = 1e-4;
  double trust_coefficient = 1e-3;
  double eps = 1e-8;
};

/// r = trust_coefficient |p| / (|g| + weight_decay |p| + eps), over one parameter; 1 where |p| or |g| is 0;
/// b = momentum b + r (g + weight_decay p)  (b begins with 0);  p -= lr b.
/// Parameters of groups with `adapt` false have r = 1: plain SGD.
/// Source: You, Gitman and Ginsburg, "Large batch training of convolutional networks", 2017, algorithm 1. Of the forms
/// in circulation it is the one where the rate is applied to the velocity, so that a schedule acts at once, as in Sgd;
/// the paper's velocity has the rate inside, which is the same for a constant rate. Numbers are those of NVIDIA apex's
/// LARC(clip=False) around torch.optim.SGD where both norms are above 0, and of timm's Lars(always_adapt=True)
/// everywhere.
class Lars final : public Optimizer {
 public:
  Lars(std::vector<ParameterGroup> groups, const LarsOptions& options);
  Lars(std::vector<Variable> parameters, const LarsOptions& options)
      : Lars(one_group(std::move(parameters)), options) {}
  void step() override;

 private:
  LarsOptions options_;
};

}  // namespace tandem::optim
