// Parameter groups: who is treated how, how parameters are counted, and what a state fits.
#include "tandem/optim/parameter_group.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tandem/core/ops/random_fill.h"
#include "tandem/optim/adam.h"
#include "tandem/optim/lamb.h"
#include "tandem/optim/lars.h"
#include "tandem/optim/sgd.h"
#include "tests/errors.h"

namespace tandem::optim {
namespace {

using core::Shape;
using testing::error_of;

/// As in a network: matrices, norms and biases in turn. Values differ, and each has a gradient.
std::vector<Variable> network() {
  std::vector<Variable> parameters;
  for (const Shape& shape : {Shape{4, 3}, {4}, {4}, {2, 4, 3, 3}, {2}, {}, {5, 2}}) {
    Tensor data = Tensor::empty(shape), gradient = Tensor::empty(shape);
    const core::RandomContext random{.seed = 3};
    core::fill_uniform(data, 0.5, 1, random.stream(static_cast<std::uint32_t>(2 * parameters.size())));
    core::fill_uniform(gradient, -1, 1, random.stream(static_cast<std::uint32_t>(2 * parameters.size() + 1)));
    parameters.emplace_back(data, true);
    parameters.back().set_grad(gradient);
  }
  return parameters;
}

std::vector<std::vector<float>> values(const std::vector<Variable>& parameters) {
  std::vector<std::vector<float>> all;
  for (const Variable& parameter : parameters) all.push_back(parameter.data().to_vector<float>());
  return all;
}

TEST(ParameterGroups, MatricesDecayOthersDoNotAndTheOrderStays) {
  const auto parameters = network();
  const auto groups = decay_matrices_only(parameters);
  ASSERT_EQ(groups.size(), 5u);
  std::size_t next = 0;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    EXPECT_EQ(groups[g].adapt, g % 2 == 0);
    EXPECT_EQ(groups[g].weight_decay, g % 2 == 0 ? std::nullopt : std::optional(0.0));
    EXPECT_EQ(groups[g].lr_factor, 1);
    for (const Variable& parameter : groups[g].parameters) {
      EXPECT_TRUE(parameter.is(parameters[next++]));
      EXPECT_EQ(parameter.shape().rank() > 1, groups[g].adapt);
    }
  }
  EXPECT_EQ(next, parameters.size());
  EXPECT_TRUE(decay_matrices_only({}).empty());
}

TEST(ParameterGroups, DecayAndRateAreTheGroups) {
  Variable a(Tensor::full({2}, 8), true), b(Tensor::full({2}, 8), true), c(Tensor::full({2}, 8), true);
  for (Variable v : {a, b, c}) v.set_grad(Tensor::full({2}, 1));
  Sgd sgd({{.parameters = {a}},
           {.parameters = {b}, .weight_decay = 0.25, .lr_factor = 0.5},
           {.parameters = {c}, .lr_factor = 0}},
          {.lr = 1, .weight_decay = 0.125});
  sgd.set_lr(0.5);
  sgd.step();
  EXPECT_EQ(a.data().to_vector<float>(), std::vector<float>(2, 8 - 0.5f * (1 + 0.125f * 8)));
  EXPECT_EQ(b.data().to_vector<float>(), std::vector<float>(2, 8 - 0.25f * (1 + 0.25f * 8)));
  EXPECT_EQ(c.data().to_vector<float>(), std::vector<float>(2, 8));
}

// One group is what there was before there were groups: the same bits.
TEST(ParameterGroups, GroupsThatChangeNothingChangeNoBit) {
  const auto together = network(), apart = network();
  Adam one(together, {.lr = 0.1, .weight_decay = 0.1, .decoupled_weight_decay = true});
  std::vector<ParameterGroup> groups;
  for (const Variable& parameter : apart) groups.push_back({.parameters = {parameter}, .weight_decay = 0.1});
  Adam many(groups, {.lr = 0.1, .decoupled_weight_decay = true});
  for (int step = 0; step < 3; ++step) {
    one.step();
    many.step();
  }
  EXPECT_EQ(values(together), values(apart));
}

TEST(ParameterGroups, ParametersAreCountedOverAllGroups) {
  auto parameters = network();
  const std::vector<Variable> front(parameters.begin(), parameters.begin() + 3),
      back(parameters.begin() + 3, parameters.end());
  Sgd sgd({{.parameters = back}, {.parameters = {}}, {.parameters = front}}, {.momentum = 0.9});
  parameters[3].set_grad({});
  sgd.step();
  std::vector<std::string> keys;
  for (const auto& [key, tensor] : sgd.state_dict()) keys.push_back(key);
  EXPECT_EQ(keys, (std::vector<std::string>{"1.momentum_buffer", "2.momentum_buffer", "3.momentum_buffer",
                                            "4.momentum_buffer", "5.momentum_buffer", "6.momentum_buffer"}));
  EXPECT_EQ(core::find(sgd.state_dict(), "4.momentum_buffer", "test").shape(), (Shape{4, 3}));
  EXPECT_TRUE(sgd.parameters()[6].is(parameters[2]));
}

// What decays is no part of a state: with the parameters in their order it fits any grouping, and goes on with the bits
// that this grouping gives.
template <class O, class Options>
void expect_state_fits_other_groups(const Options& options) {
  const auto parameters = network(), resumed = network(), undisturbed = network();
  O all(parameters, options), first(undisturbed, options);
  all.step();
  first.step();
  for (std::size_t i = 0; i < resumed.size(); ++i) Tensor(resumed[i].data()).copy_from(parameters[i].data());
  O matrices(decay_matrices_only(resumed), options);
  StateDict saved;
  for (const auto& [key, tensor] : all.state_dict()) saved.emplace_back(key, tensor.clone());
  matrices.load_state_dict(saved);
  matrices.step();
  first.step();  // decays all
  EXPECT_NE(values(resumed)[1], values(undisturbed)[1]);
  O again(decay_matrices_only(parameters), options);
  again.load_state_dict(all.state_dict());
  again.step();
  EXPECT_EQ(values(resumed), values(parameters));
  // Matrices are treated alike in both groupings: they go on as if nothing had been saved.
  for (std::size_t i = 0; i < resumed.size(); ++i)
    if (resumed[i].shape().rank() > 1) {
      EXPECT_EQ(values(resumed)[i], values(undisturbed)[i]) << i;
    }
}

TEST(ParameterGroups, AStateFitsAnotherGrouping) {
  expect_state_fits_other_groups<Sgd>(SgdOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.5});
  expect_state_fits_other_groups<Adam>(AdamOptions{.lr = 0.1, .weight_decay = 0.5});
  expect_state_fits_other_groups<Lars>(LarsOptions{.weight_decay = 0.5});
  expect_state_fits_other_groups<Lamb>(LambOptions{.weight_decay = 0.5});
}

TEST(ParameterGroups, AStateOfAnotherOrderIsRefused) {
  const auto parameters = network();
  Sgd sgd(parameters, {.momentum = 0.9});
  sgd.step();
  Sgd reversed(std::vector<Variable>(parameters.rbegin(), parameters.rend()), {.momentum = 0.9});
  EXPECT_EQ(error_of([&] { reversed.load_state_dict(sgd.state_dict()); }),
            "optimizer: '0.momentum_buffer' has shape [4, 3], its parameter [5, 2]; a state fits the order of "
            "parameters that it was saved with");
  EXPECT_TRUE(reversed.state_dict().empty());
}

TEST(ParameterGroups, Errors) {
  const Variable a(Tensor::zeros({2}), true), b(Tensor::zeros({3}), true), constant(Tensor::zeros({2}));
  const auto error = [](std::vector<ParameterGroup> groups) { return error_of([&] { Sgd(std::move(groups), {}); }); };
  EXPECT_EQ(error({{.parameters = {a}}, {.parameters = {b}, .lr_factor = -1}}),
            "sgd: group 1: the learning-rate factor is -1, must be a number >= 0");
  EXPECT_EQ(error({{.parameters = {a}, .lr_factor = std::nan("")}}),
            "sgd: group 0: the learning-rate factor is nan, must be a number >= 0");
  EXPECT_EQ(error({{.parameters = {a}, .weight_decay = -0.1}}),
            "sgd: group 0: the weight decay is -0.1, must be a number >= 0");
  EXPECT_EQ(error({{.parameters = {a}}, {.parameters = {b, a}}}),
            "optimizer: parameter 2 of shape [2] is listed twice");
  EXPECT_EQ(error({{.parameters = {a, b}}, {.parameters = {constant}}}),
            "optimizer: parameter 2 is not a leaf that requires a gradient");
}

}  // namespace
}  // namespace tandem::optim
