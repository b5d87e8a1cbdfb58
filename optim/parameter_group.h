// Parameter groups: what is trained differently from the rest.
//
//   optim::Sgd sgd({{.parameters = body.parameters(), .lr_factor = 0.1},
//                   {.parameters = head.parameters()}}, {.lr = 0.1});
//   optim::Lamb lamb(optim::decay_matrices_only(model.parameters()), {.weight_decay = 0.01});
//
// Parameters are counted over all groups, one behind the other; that number is what messages and state_dict name them
// by. A state fits every optimizer of the same kind that has the parameters in the same order, however they are grouped
// and treated.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "tandem/autograd/variable.h"

namespace tandem::optim {

using autograd::Variable;

struct ParameterGroup {
  std::vector<Variable> parameters = {};
  std::optional<double> weight_decay = {};  ///< in place of the optimizer's
  double lr_factor = 1;                     ///< the rate is the optimizer's, which schedules set, times this
  bool adapt = true;                        ///< whether LARS and LAMB fit the rate to each parameter's norm
};

/// Weight decay and adaptation for matrices and what has more dimensions; neither for what has at most one, which is
/// norms and biases, whose size says nothing about overfitting (Goyal et al., "Accurate, large minibatch SGD", 2017,
/// section 5.3; You et al., 2020). The parameters' order stays: neighbours that are treated alike form a group.
std::vector<ParameterGroup> decay_matrices_only(std::span<const Variable> parameters);

}  // namespace tandem::optim
