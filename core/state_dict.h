// Named tensors in a fixed order: what models, optimizers and samplers save and load.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tandem/core/tensor.h"

namespace tandem::core {

using StateDict = std::vector<std::pair<std::string, Tensor>>;

/// The entry called `name`; throws naming `what` ("sgd", "conv1.weight's owner") and `name` where there is none.
const Tensor& find(const StateDict& state, const std::string& name, const char* what);

}  // namespace tandem::core
