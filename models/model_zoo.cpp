#include "tandem/models/model_zoo.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "tandem/models/convnet.h"
#include "tandem/models/deep_mlp.h"
#include "tandem/models/mlp.h"

namespace tandem::models {
namespace {

constexpr std::int64_t kPixels = 28 * 28;

struct NamedDepth {
  const char* name;
  int depth;
};
constexpr NamedDepth kResNets[] = {
    {"resnet18", 18}, {"resnet34", 34}, {"resnet50", 50}, {"resnet101", 101}, {"resnet152", 152}};

std::int64_t positive(const char* what, std::optional<std::int64_t> given, std::int64_t otherwise) {
  const std::int64_t value = given.value_or(otherwise);
  if (value < 1) core::fail("model: {} is {}, but must be positive", what, value);
  return value;
}

std::shared_ptr<nn::Module> make_resnet(int depth, const ModelOptions& options) {
  const ResNetOptions defaults;
  core::Generator random(options.seed);
  return std::make_shared<ResNet>(
      random, ResNetOptions{.depth = depth,
                            .classes = positive("classes", options.classes, defaults.classes),
                            .in_channels = positive("in_channels", options.in_channels, defaults.in_channels),
                            .stem = options.stem.value_or(defaults.stem),
                            .zero_init_residual = options.zero_init_residual,
                            .recompute = options.recompute});
}

}  // namespace

const std::vector<std::string>& model_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all{"mlp", "mlp-large", "convnet"};
    for (const NamedDepth& resnet : kResNets) all.emplace_back(resnet.name);
    return all;
  }();
  return names;
}

std::shared_ptr<nn::Module> make_model(const std::string& name, const ModelOptions& options) {
  for (const NamedDepth& resnet : kResNets)
    if (name == resnet.name) return make_resnet(resnet.depth, options);
  const auto& names = model_names();
  if (std::find(names.begin(), names.end(), name) == names.end())
    core::fail("model: '{}' is none of {}", name, fmt::join(names, ", "));
  if (options.stem) core::fail("model: {} has no stem to choose, only ResNets have", name);
  if (options.zero_init_residual) core::fail("model: {} has no residual blocks to start from zero", name);
  if (options.recompute) core::fail("model: {} has no batch norms to compute again, only ResNets have", name);
  core::Generator random(options.seed);
  const std::int64_t classes = positive("classes", options.classes, 10);
  const std::int64_t channels = positive("in_channels", options.in_channels, 1);
  if (name == "mlp") return std::make_shared<Mlp>(random, channels * kPixels, 256, classes);
  if (name == "mlp-large") return std::make_shared<DeepMlp>(random, channels * kPixels, classes);
  return std::make_shared<ConvNet>(random, channels, classes);
}

}  // namespace tandem::models
