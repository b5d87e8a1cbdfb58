// A parameter whose gradient is averaged over ranks.
#pragma once

#include <string>
#include <vector>

#include "tandem/autograd/variable.h"

namespace tandem::distributed {

struct ReducedParameter {
  std::string name;             ///< "layer1.0.conv1.weight"
  autograd::Variable variable;  ///< a leaf that requires a gradient
};

/// "conv1.weight, conv1.bias and 3 more": for messages.
std::string list_names(const std::vector<std::string>& names);

}  // namespace tandem::distributed
