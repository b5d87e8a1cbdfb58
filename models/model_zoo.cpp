#include "tandem/models/model_zoo.h"

#include <fmt/ranges.h>

#include "tandem/models/convnet.h"
#include "tandem/models/deep_mlp.h"
#include "tandem/models/mlp.h"

namespace tandem::models {

const std::vector<std::string>& model_names() {
  static const std::vector<std::string> names{"mlp", "mlp-large", "convnet"};
  return names;
}

std::shared_ptr<nn::Module> make_model(const std::string& name, const ModelOptions& options) {
  core::Generator random(options.seed);
  if (name == "mlp") return std::make_shared<Mlp>(random);
  if (name == "mlp-large") return std::make_shared<DeepMlp>(random);
  if (name == "convnet") return std::make_shared<ConvNet>(random);
  core::fail("model: '{}' is none of {}", name, fmt::join(model_names(), ", "));
}

}  // namespace tandem::models
