#include "tandem/optim/make_optimizer.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "tandem/optim/adam.h"
#include "tandem/optim/lamb.h"
#include "tandem/optim/lars.h"
#include "tandem/optim/sgd.h"
#include "tests/errors.h"

namespace tandem::optim {
namespace {

constexpr OptimizerOptions kOptions{.lr = 0.5, .momentum = 0.25, .weight_decay = 0.125};

// The parameter after two steps.
std::vector<float> moved(const std::function<std::unique_ptr<Optimizer>(const Variable&)>& make) {
  Variable w(Tensor::from<float>({1, -2, 3}), true);
  const auto optimizer = make(w);
  for (int step = 0; step < 2; ++step) {
    w.set_grad(Tensor::from<float>({3, 1, -2}));
    optimizer->step();
  }
  return w.data().to_vector<float>();
}

std::vector<float> moved_by_name(const std::string& name, const OptimizerOptions& options) {
  return moved([&](const Variable& w) { return make_optimizer(name, {{.parameters = {w}}}, options); });
}

template <class O, class Options>
std::vector<float> moved_by(const Options& options) {
  return moved([&](const Variable& w) { return std::make_unique<O>(std::vector<Variable>{w}, options); });
}

TEST(MakeOptimizer, EachNameIsItsRuleWithTheOptions) {
  OptimizerOptions nesterov = kOptions;
  nesterov.nesterov = true;
  EXPECT_EQ(moved_by_name("sgd", kOptions),
            moved_by<Sgd>(SgdOptions{.lr = 0.5, .momentum = 0.25, .weight_decay = 0.125}));
  EXPECT_EQ(moved_by_name("sgd", nesterov),
            moved_by<Sgd>(SgdOptions{.lr = 0.5, .momentum = 0.25, .weight_decay = 0.125, .nesterov = true}));
  EXPECT_EQ(moved_by_name("adam", kOptions), moved_by<Adam>(AdamOptions{.lr = 0.5, .weight_decay = 0.125}));
  EXPECT_EQ(moved_by_name("adamw", kOptions),
            moved_by<Adam>(AdamOptions{.lr = 0.5, .weight_decay = 0.125, .decoupled_weight_decay = true}));
  EXPECT_EQ(moved_by_name("lars", kOptions),
            moved_by<Lars>(LarsOptions{.lr = 0.5, .momentum = 0.25, .weight_decay = 0.125}));
  EXPECT_EQ(moved_by_name("lamb", kOptions), moved_by<Lamb>(LambOptions{.lr = 0.5, .weight_decay = 0.125}));
}

TEST(MakeOptimizer, NamesAreThoseThatItMakes) {
  for (const std::string& name : optimizer_names()) EXPECT_NE(make_optimizer(name, {}, kOptions), nullptr) << name;
  EXPECT_TRUE(has_momentum("sgd"));
  EXPECT_TRUE(has_momentum("lars"));
  for (const char* name : {"adam", "adamw", "lamb"}) EXPECT_FALSE(has_momentum(name)) << name;
  EXPECT_EQ(testing::error_of([] { make_optimizer("sdg", {}, {}); }),
            "optimizer: 'sdg' is none of sgd, adam, adamw, lars, lamb");
}

}  // namespace
}  // namespace tandem::optim
