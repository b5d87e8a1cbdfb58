// Models by the names that the programs use.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tandem/nn/module.h"

namespace tandem::models {

struct ModelOptions {
  std::uint64_t seed = 0;  ///< of the initial weights
};

/// "mlp", "mlp-large", "convnet".
const std::vector<std::string>& model_names();

/// Throws listing the names where `name` is none of them.
std::shared_ptr<nn::Module> make_model(const std::string& name, const ModelOptions& options = {});

}  // namespace tandem::models
