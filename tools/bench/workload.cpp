#include "tools/bench/workload.h"

#include "tandem/core/error.h"

namespace tandem::bench {

const std::vector<WorkloadDefaults>& workload_defaults() {
  static const std::vector<WorkloadDefaults> all{
      {"tiny-mlp", 8, 20000, "sgd", 0},  {"mlp", 64, 500, "sgd", 0},       {"mlp-large", 64, 20, "sgd", 0},
      {"convnet", 64, 40, "sgd", 0},     {"resnet18", 16, 10, "sgd", 0.9}, {"resnet34", 16, 8, "sgd", 0.9},
      {"resnet50", 16, 6, "sgd", 0.9},   {"resnet101", 16, 4, "sgd", 0.9}, {"resnet152", 16, 4, "sgd", 0.9},
      {"bert-tiny", 8, 100, "adamw", 0}, {"bert-mini", 8, 40, "adamw", 0}, {"bert-base", 8, 6, "adamw", 0},
      {"bert-large", 8, 4, "adamw", 0},
  };
  return all;
}

const WorkloadDefaults& defaults_of(const std::string& model) {
  for (const WorkloadDefaults& defaults : workload_defaults())
    if (model == defaults.model) return defaults;
  core::fail("bench: no model '{}'", model);
}

std::unique_ptr<Workload> make_workload(const WorkloadSettings& settings) {
  return settings.model.starts_with("bert-") ? make_text_workload(settings) : make_image_workload(settings);
}

}  // namespace tandem::bench
