#include "tandem/optim/parameter_group.h"

namespace tandem::optim {

std::vector<ParameterGroup> decay_matrices_only(std::span<const Variable> parameters) {
  std::vector<ParameterGroup> groups;
  for (const Variable& parameter : parameters) {
    const bool is_matrix = parameter.shape().rank() > 1;
    if (groups.empty() || groups.back().adapt != is_matrix)
      groups.push_back({.weight_decay = is_matrix ? std::nullopt : std::optional(0.0), .adapt = is_matrix});
    groups.back().parameters.push_back(parameter);
  }
  return groups;
}

}  // namespace tandem::optim
