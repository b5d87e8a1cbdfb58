// Optimizers and gradient clipping against PyTorch, LARS and LAMB against their formulas in PyTorch: three steps, with
// a parameter that sits one out.
#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "tandem/optim/adam.h"
#include "tandem/optim/clip_grad.h"
#include "tandem/optim/lamb.h"
#include "tandem/optim/lars.h"
#include "tandem/optim/sgd.h"
#include "tests/golden/golden_file.h"

namespace tandem::optim {
namespace {

using testing::expect_near;
using testing::GoldenFile;

constexpr int kParameters = 5, kSteps = 3;

struct Setting {
  const char* name;
  std::function<std::unique_ptr<Optimizer>(std::vector<Variable>)> make;
};

template <class O, class Options>
Setting setting(const char* name, const Options& options) {
  return {name,
          [options](std::vector<Variable> parameters) { return std::make_unique<O>(std::move(parameters), options); }};
}

/// Matrices are trained as the options say; the others without weight decay and adaptation, at a fifth of the rate.
template <class O, class Options>
Setting grouped(const char* name, const Options& options) {
  return {name, [options](const std::vector<Variable>& parameters) {
            std::vector<ParameterGroup> groups = decay_matrices_only(parameters);
            for (ParameterGroup& group : groups)
              if (!group.adapt) group.lr_factor = 0.2;
            return std::make_unique<O>(std::move(groups), options);
          }};
}

constexpr LarsOptions kLars{.lr = 2, .momentum = 0.9, .weight_decay = 0.05, .trust_coefficient = 0.02};
constexpr LambOptions kLamb{.lr = 0.05, .weight_decay = 0.1};

const std::vector<Setting>& settings() {
  static const std::vector<Setting> all{
      setting<Sgd>("sgd", SgdOptions{.lr = 0.1}),
      setting<Sgd>("sgd_weight_decay", SgdOptions{.lr = 0.1, .weight_decay = 0.05}),
      setting<Sgd>("sgd_momentum", SgdOptions{.lr = 0.1, .momentum = 0.9}),
      setting<Sgd>("sgd_dampening", SgdOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.3, .weight_decay = 0.05}),
      setting<Sgd>("sgd_nesterov", SgdOptions{.lr = 0.1, .momentum = 0.8, .weight_decay = 0.05, .nesterov = true}),
      setting<Adam>("adam", AdamOptions{.lr = 0.01}),
      setting<Adam>("adam_weight_decay",
                    AdamOptions{.lr = 0.02, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-6, .weight_decay = 0.1}),
      setting<Adam>("adamw", AdamOptions{.lr = 0.02, .weight_decay = 0.1, .decoupled_weight_decay = true}),
      setting<Lars>("lars", kLars),
      setting<Lars>("lars_no_momentum",
                    LarsOptions{.lr = 2, .momentum = 0, .weight_decay = 0.05, .trust_coefficient = 0.02}),
      setting<Lamb>("lamb", kLamb),
      setting<Lamb>("lamb_options",
                    LambOptions{.lr = 0.05, .beta1 = 0.8, .beta2 = 0.95, .eps = 0.1, .weight_decay = 0.5}),
      grouped<Sgd>("sgd_groups", SgdOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.05}),
      grouped<Adam>("adam_groups", AdamOptions{.lr = 0.02, .weight_decay = 0.1}),
      grouped<Adam>("adamw_groups", AdamOptions{.lr = 0.02, .weight_decay = 0.1, .decoupled_weight_decay = true}),
      grouped<Lars>("lars_groups", kLars),
      grouped<Lamb>("lamb_groups", kLamb),
  };
  return all;
}

void check_setting(const Setting& s, GoldenFile& file, const std::string& dtype, double tolerance) {
  const std::string prefix = dtype + "." + s.name + ".";
  const auto key = [&](const char* what, int i, int step) {
    return prefix + what + std::to_string(i) + "." + std::to_string(step);
  };
  std::vector<Variable> parameters;
  for (int i = 0; i < kParameters; ++i) parameters.emplace_back(file[key("p", i, 0)].clone(), true);
  const auto optimizer = s.make(parameters);
  for (int step = 0; step < kSteps; ++step) {
    for (int i = 0; i < kParameters; ++i)
      parameters[static_cast<std::size_t>(i)].set_grad(file.has(key("g", i, step)) ? file[key("g", i, step)]
                                                                                   : Tensor());
    optimizer->step();
    for (int i = 0; i < kParameters; ++i)
      expect_near(parameters[static_cast<std::size_t>(i)].data(), file[key("p", i, step + 1)], tolerance,
                  key("p", i, step + 1));
  }
  for (const auto& [name, tensor] : optimizer->state_dict())
    if (!name.ends_with(".step")) expect_near(tensor, file[prefix + "state." + name], tolerance, name);
}

void check_clipping(GoldenFile& file, const std::string& prefix, double max_norm, double tolerance) {
  std::vector<Variable> parameters;
  for (int i = 0; i < kParameters; ++i) {
    const std::string key = prefix + ".g" + std::to_string(i) + ".before";
    if (!file.has(key)) {
      parameters.emplace_back(Tensor::zeros({5}), true);  // without a gradient
      continue;
    }
    parameters.emplace_back(Tensor::zeros_like(file[key]), true);
    parameters.back().set_grad(file[key].clone());
  }
  const double norm = clip_grad_norm(parameters, max_norm).item(), expected = file[prefix + ".norm"].item();
  EXPECT_NEAR(norm, expected, tolerance * expected);
  for (int i = 0; i < kParameters; ++i) {
    const std::string key = prefix + ".g" + std::to_string(i) + ".after";
    if (file.has(key)) expect_near(parameters[static_cast<std::size_t>(i)].grad(), file[key], tolerance, key);
  }
}

TEST(OptimizersLikePyTorch, ThreeStepsAndClipping) {
  GoldenFile file("optimizers.safetensors");
  for (const auto& [dtype, tolerance] : {std::pair<std::string, double>{"float64", 1e-12}, {"float32", 2e-6}}) {
    for (const Setting& s : settings()) {
      SCOPED_TRACE(dtype + "." + s.name);
      check_setting(s, file, dtype, tolerance);
    }
    check_clipping(file, dtype + ".clip", 1.5, tolerance);
    check_clipping(file, dtype + ".no_clip", 1e3, tolerance);
  }
  file.expect_all_read();
}

}  // namespace
}  // namespace tandem::optim
