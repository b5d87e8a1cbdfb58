// Optimizers by name, as programs take them from their users.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tandem/optim/optimizer.h"

namespace tandem::optim {

/// What the optimizers have in common; what else an update rule has is as its own options default.
struct OptimizerOptions {
  double lr = 0.01;
  double momentum = 0;  ///< sgd and lars
  double weight_decay = 0;
  bool nesterov = false;  ///< sgd
};

/// "sgd", "adam", "adamw", "lars", "lamb".
const std::vector<std::string>& optimizer_names();
/// Whether this one takes a momentum: sgd and lars. The others are adaptive.
bool has_momentum(const std::string& name);

/// Throws Error listing the names if `name` is none of them, and what the optimizer throws.
std::unique_ptr<Optimizer> make_optimizer(const std::string& name, std::vector<ParameterGroup> groups,
                                          const OptimizerOptions& options);

}  // namespace tandem::optim
