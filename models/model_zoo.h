// Models by the names that the programs use.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tandem/models/resnet.h"
#include "tandem/nn/module.h"

namespace tandem::models {

/// Images are [in_channels, H, W]; "mlp", "mlp-large" and "convnet" take 28 x 28 only.
struct ModelOptions {
  std::uint64_t seed = 0;                                  ///< of the initial weights
  std::optional<std::int64_t> classes = std::nullopt;      ///< default: 1000 for ResNets, else 10
  std::optional<std::int64_t> in_channels = std::nullopt;  ///< default: 3 for ResNets, else 1
  std::optional<Stem> stem = std::nullopt;                 ///< of ResNets; default: imagenet
  bool zero_init_residual = false;                         ///< of ResNets
  bool recompute = false;                                  ///< of ResNets: less memory, a little more time
};

/// "mlp", "mlp-large", "convnet", "resnet18", "resnet34", "resnet50", "resnet101", "resnet152".
const std::vector<std::string>& model_names();

/// Throws listing the names where `name` is none of them, and where an option is not the model's or out of range.
std::shared_ptr<nn::Module> make_model(const std::string& name, const ModelOptions& options = {});

}  // namespace tandem::models
