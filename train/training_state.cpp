#include "tandem/train/training_state.h"

#include <fmt/core.h>

#include <cmath>

#include "tandem/core/ops/norm.h"
#include "tandem/distributed/error.h"

namespace tandem::train {

std::int64_t epoch_number(const TrainingState& state) {
  if (state.step() == 0) return 0;
  return std::int64_t{state.position.epoch} + (state.position.micro_step > 0);
}

void check_finite(const TrainingState& state, const std::string& advice) {
  const auto check = [&](const char* whose, const core::StateDict& tensors) {
    std::vector<core::Tensor> all;
    for (const auto& [name, tensor] : tensors)
      if (core::is_floating(tensor.dtype())) all.push_back(tensor);
    if (std::isfinite(core::sum_of_squares(all).item())) return;
    for (const auto& [name, tensor] : tensors)
      if (core::is_floating(tensor.dtype()) && !std::isfinite(core::sum_of_squares(tensor).item()))
        throw distributed::SharedError(fmt::format(
            "{}{} holds values that are not finite or too large after the last update, step {}: training diverged; {}",
            whose, name, state.step(), advice));
  };
  check("", state.model().state_dict());
  check("the optimizer's ", state.optimizer->state_dict());
}

std::vector<nn::Variable> trained_parameters(const nn::Module& model) {
  std::vector<nn::Variable> trained;
  for (const nn::Variable& parameter : model.parameters())
    if (parameter.requires_grad()) trained.push_back(parameter);
  return trained;
}

}  // namespace tandem::train
