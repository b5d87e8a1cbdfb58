// What the recorder is told of a step: how often its operator passes over the parameters that move.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tandem/core/recorder.h"
#include "tandem/optim/adam.h"
#include "tandem/optim/lamb.h"
#include "tandem/optim/lars.h"
#include "tandem/optim/sgd.h"

namespace tandem::optim {
namespace {

using core::Tensor;

/// Of 10 numbers in float32 and 3 in float64 with gradients, and 7 without.
std::vector<Variable> make_parameters() {
  std::vector<Variable> parameters{Variable(Tensor::full({10}, 1), true),
                                   Variable(Tensor::full({3}, 1, {.dtype = core::DType::float64}), true),
                                   Variable(Tensor::full({7}, 1), true)};
  for (std::size_t i = 0; i < 2; ++i) parameters[i].set_grad(Tensor::zeros_like(parameters[i].data()));
  return parameters;
}

void expect_passes(const std::string& name, int passes, Optimizer& optimizer) {
  core::recorder::drain();
  core::recorder::enable(true);
  optimizer.step();
  core::recorder::enable(false);
  int found = 0;
  for (const core::Event& event : core::recorder::drain()) {
    if (event.name != name) continue;
    ++found;
    EXPECT_EQ(std::string(event.category), "op");
    EXPECT_EQ(event.bytes, passes * (10 * 4 + 3 * 8)) << name;
    EXPECT_EQ(event.flops, 0) << name;
  }
  EXPECT_EQ(found, 1) << name;
}

TEST(OptimizerCostTest, PassesOverParametersGradientsAndState) {
  Sgd plain(make_parameters(), {.lr = 0.1});
  expect_passes("momentum_step", 3, plain);  // p and g read, p written
  Sgd sgd(make_parameters(), {.lr = 0.1, .momentum = 0.9});
  expect_passes("momentum_step", 5, sgd);
  Adam adam(make_parameters(), {});
  expect_passes("adam_step", 7, adam);  // p, g, m, v read, p, m, v written
  Lamb lamb(make_parameters(), {});
  expect_passes("lamb_step", 10, lamb);  // p, g, m, v read, m, v written; p, m, v read, p written
  Lars lars(make_parameters(), {});
  expect_passes("momentum_step", 7, lars);
}

}  // namespace
}  // namespace tandem::optim
