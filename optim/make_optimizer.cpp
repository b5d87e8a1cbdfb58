#include "tandem/optim/make_optimizer.h"

#include "tandem/optim/adam.h"
#include "tandem/optim/lamb.h"
#include "tandem/optim/lars.h"
#include "tandem/optim/sgd.h"

namespace tandem::optim {

const std::vector<std::string>& optimizer_names() {
  static const std::vector<std::string> names{"sgd", "adam", "adamw", "lars", "lamb"};
  return names;
}

bool has_momentum(const std::string& name) { return name == "sgd" || name == "lars"; }

std::unique_ptr<Optimizer> make_optimizer(const std::string& name, std::vector<ParameterGroup> groups,
                                          const OptimizerOptions& o) {
  if (name == "sgd")
    return std::make_unique<Sgd>(
        std::move(groups),
        SgdOptions{.lr = o.lr, .momentum = o.momentum, .weight_decay = o.weight_decay, .nesterov = o.nesterov});
  if (name == "adam" || name == "adamw")
    return std::make_unique<Adam>(
        std::move(groups),
        AdamOptions{.lr = o.lr, .weight_decay = o.weight_decay, .decoupled_weight_decay = name == "adamw"});
  if (name == "lars")
    return std::make_unique<Lars>(std::move(groups),
                                  LarsOptions{.lr = o.lr, .momentum = o.momentum, .weight_decay = o.weight_decay});
  if (name == "lamb")
    return std::make_unique<Lamb>(std::move(groups), LambOptions{.lr = o.lr, .weight_decay = o.weight_decay});
  core::fail("optimizer: '{}' is none of sgd, adam, adamw, lars, lamb", name);
}

}  // namespace tandem::optim
