// Recipes: outputs that others do not keep for backward but compute again there.
#include <gtest/gtest.h>

#include <functional>

#include "tandem/autograd/engine.h"
#include "tandem/autograd/grad_mode.h"
#include "tandem/autograd/node.h"
#include "tandem/autograd/ops.h"
#include "tandem/core/allocator.h"
#include "tandem/core/recorder.h"
#include "tests/autograd/operator_cases.h"
#include "tests/errors.h"

namespace tandem::autograd {
namespace {

using core::GeluApproximation;
using tandem::testing::error_of;
using testing::InputSpec;
using testing::Layout;

constexpr double kEps = 1e-5;

Variable make(const InputSpec& spec, int seed, DType dtype = DType::float32) {
  return Variable(testing::arranged(testing::make_values(spec, seed).to(dtype), spec.layout), true);
}

std::vector<double> bits(const Tensor& tensor) { return tensor.to_vector<double>(); }

std::size_t in_use() { return core::allocator(core::default_device()).statistics().in_use; }

/// Names of the operators whose outputs `f` had computed again, in turn.
std::vector<std::string> computed_again(const std::function<void()>& f) {
  core::recorder::drain();
  core::recorder::enable(true);
  f();
  core::recorder::enable(false);
  std::vector<std::string> names;
  for (const core::Event& event : core::recorder::drain())
    if (std::string(event.category) == "recompute") names.emplace_back(event.name);
  return names;
}

// A recipe by itself
// ---------------------------------------------------------------------------------------------------

/// A saved `y` comes from its recipe, and is what forward gave: values bit for bit, dtype and order in memory.
void expect_made_again(const Variable& y) {
  const SavedVariable saved(y);
  Tensor again;
  EXPECT_EQ(computed_again([&] { again = saved.get(); }), std::vector<std::string>{y.maker()->name()});
  EXPECT_FALSE(again.is_same_view(y.data()));
  EXPECT_EQ(again.dtype(), y.dtype());
  EXPECT_TRUE(again.has_layout_of(y.data())) << again.shape().str();
  EXPECT_EQ(bits(again), bits(y.data()));
}

class Recipe : public ::testing::TestWithParam<DType> {};

TEST_P(Recipe, OfBatchNormGivesTheSameBits) {
  for (const Shape& shape : {Shape{4, 3}, Shape{2, 3, 4, 5}, Shape{2, 1, 3, 3}, Shape{4, 37, 9, 8}, Shape{0, 3, 4, 5}})
    for (const Layout layout : {Layout::contiguous, Layout::channels_last, Layout::sliced})
      for (const bool relu : {false, true})
        for (const int parameters : {0, 1, 2}) {
          if (shape.rank() != 4 && layout == Layout::channels_last) continue;
          if (shape[0] == 0 && layout != Layout::contiguous) continue;
          SCOPED_TRACE(fmt::format("{} layout {} relu {} parameters {}", shape.str(), static_cast<int>(layout), relu,
                                   parameters));
          const InputSpec channels{{shape[1]}};
          const Variable x = make({shape, layout}, 1, GetParam());
          const Variable weight = parameters > 0 ? make(channels, 2) : Variable();
          const Variable bias = parameters > 1 ? make(channels, 3) : Variable();
          const BatchNormFusion fusion{.relu = relu, .recompute = true};
          if (shape[0] > 0) expect_made_again(batch_norm_training(x, weight, bias, kEps, nullptr, fusion));
          const Tensor mean = make(channels, 4).data(), variance = make({{shape[1]}, {}, true}, 5).data();
          expect_made_again(batch_norm_inference(x, weight, bias, mean, variance, kEps, fusion));
        }
}

TEST_P(Recipe, OfGeluGivesTheSameBits) {
  for (const InputSpec& spec : {InputSpec{{7}}, InputSpec{{3, 5}}, InputSpec{{2, 3, 130}}, InputSpec{{0, 4}},
                                InputSpec{{4, 6}, Layout::transposed}, InputSpec{{4, 6}, Layout::sliced}})
    for (const auto approximation : {GeluApproximation::none, GeluApproximation::tanh}) {
      SCOPED_TRACE(spec.shape.str());
      const Variable x = make(spec, 1, GetParam()), bias = make({{spec.shape.back()}}, 2, GetParam());
      expect_made_again(bias_gelu(x, bias, approximation, /*recompute=*/true));
    }
}

INSTANTIATE_TEST_SUITE_P(Types, Recipe, ::testing::Values(DType::float32, DType::float64, DType::bfloat16),
                         [](const auto& type) { return std::string(core::name(type.param)); });

// In a network
// ---------------------------------------------------------------------------------------------------------

/// conv2d(relu(batch_norm(x))): who saves the activation is another operator than who made it.
struct Network {
  Variable x = make({{2, 16, 16, 16}, Layout::channels_last}, 1);
  Variable weight = make({{16}}, 2), bias = make({{16}}, 3);
  Variable filter = make({{4, 16, 3, 3}}, 4);
  bool recompute = true;

  Variable activation(const Variable& residual = {}) const {
    return batch_norm_training(x, weight, bias, kEps, nullptr,
                               {.relu = true, .residual = residual, .recompute = recompute});
  }
  Variable convolution(const Variable& activation) const { return conv2d(activation, filter, {}, {.padding = {1, 1}}); }
  Variable output() const { return convolution(activation()); }

  std::vector<std::vector<double>> gradients() const {
    std::vector<std::vector<double>> all;
    for (const Variable& leaf : {x, weight, bias, filter}) all.push_back(bits(leaf.grad()));
    return all;
  }
};

std::vector<std::vector<double>> gradients(bool recompute, const std::function<Variable(const Network&)>& output) {
  Network network;
  network.recompute = recompute;
  sum(square(output(network))).backward();
  return network.gradients();
}

void expect_same_gradients(const std::function<Variable(const Network&)>& output) {
  EXPECT_EQ(gradients(true, output), gradients(false, output));
}

TEST(Recompute, TheActivationIsNotKeptAndGradientsAreTheSame) {
  Network network;
  const std::size_t bytes = core::CachingAllocator::rounded_size(network.x.data().bytes());
  const auto held = [&](bool recompute) {
    network.recompute = recompute;
    const std::size_t before = in_use();
    const Variable output = network.output();
    return in_use() - before;
  };
  for (int use = 0; use < 2; ++use) held(true);  // packed weights are kept from the second use on
  EXPECT_EQ(held(false) - held(true), bytes);
  expect_same_gradients([](const Network& n) { return n.output(); });
}

TEST(Recompute, GeluBeforeALinearIsNotKept) {
  const Variable x = make({{6, 32}}, 1), first = make({{256, 32}}, 2), bias = make({{256}}, 3),
                 second = make({{16, 256}}, 4);
  const auto run = [&](bool recompute) {
    const std::size_t before = in_use();
    const Variable output =
        linear(bias_gelu(linear(x, first, {}), bias, GeluApproximation::none, recompute), second, {});
    const std::size_t held = in_use() - before;
    std::vector<std::vector<double>> gradients;
    sum(square(output)).backward();
    for (Variable leaf : {x, first, bias, second}) {
      gradients.push_back(bits(leaf.grad()));
      leaf.set_grad({});
    }
    return std::pair(held, gradients);
  };
  run(true);
  const auto [kept, expected] = run(false);
  const auto [lean, got] = run(true);
  EXPECT_EQ(kept - lean, core::CachingAllocator::rounded_size(6 * 256 * sizeof(float)));
  EXPECT_EQ(got, expected);
}

TEST(Recompute, TwoConsumersComputeItEach) {
  const auto output = [](const Network& n) {
    const Variable y = n.activation();
    return n.convolution(y) + n.convolution(y * y);  // the product saves it, too
  };
  expect_same_gradients(output);
  const Network network;
  const Variable loss = sum(output(network));
  // Newest first: both factors of the product; then the convolution of y. That of y * y has what it needs.
  EXPECT_EQ(computed_again([&] { loss.backward(); }), (std::vector<std::string>{3, "batch_norm"}));
}

TEST(Recompute, OnlyWhereTheWeightsGradientIsWanted) {
  Network network;
  network.filter.set_requires_grad(false);
  const Variable loss = sum(network.output());
  EXPECT_EQ(computed_again([&] { loss.backward(); }), std::vector<std::string>{});
  EXPECT_TRUE(network.x.grad().defined());
}

TEST(Recompute, WithAResidualTheOutputIsKept) {
  const auto output = [](const Network& n) { return n.convolution(n.activation(n.x)); };
  const Network network;
  const Variable loss = sum(output(network));
  EXPECT_EQ(computed_again([&] { loss.backward(); }), std::vector<std::string>{});
  expect_same_gradients(output);
}

TEST(Recompute, WhatIsNotRecordedIsKeptByItself) {
  Network network;
  for (Variable* leaf : {&network.x, &network.weight, &network.bias}) leaf->set_requires_grad(false);
  const Variable loss = sum(network.output());
  EXPECT_EQ(computed_again([&] { loss.backward(); }), std::vector<std::string>{});
  EXPECT_TRUE(network.filter.grad().defined());

  const NoGradGuard no_grad;
  const Network another;
  const Variable y = another.activation();
  EXPECT_TRUE(y.is_leaf());
  EXPECT_TRUE(another.x.data().is_unique());
  EXPECT_TRUE(y.data().is_unique());
}

// Changes in place
// -----------------------------------------------------------------------------------------------------

TEST(Recompute, AChangeOfWhatItIsComputedFromIsNoticed) {
  for (const auto& [what, shape] : {std::pair{&Network::x, "[2, 16, 16, 16]"}, {&Network::weight, "[16]"}}) {
    const Network network;
    const Variable loss = sum(network.output());
    Tensor((network.*what).data()).fill(0);
    EXPECT_EQ(error_of([&] { loss.backward(); }),
              fmt::format("backward of conv2d: computing batch_norm again: a tensor of shape {} that was saved for "
                          "backward has been changed in place since (1 writes)",
                          shape));
  }
}

TEST(Recompute, AChangedOutputIsKeptAsItIs) {
  expect_same_gradients([](const Network& n) {
    const Variable y = n.activation();
    Tensor(y.data()).fill(3);  // before the convolution sees it
    return n.convolution(y);
  });
}

// Without a recipe this is an error: the convolution's input is gone.
TEST(Recompute, AnOutputMayChangeOnceItWasUsed) {
  Network network;
  const Variable y = network.activation();
  const Variable loss = sum(square(network.convolution(y)));
  Tensor(y.data()).fill(3);
  loss.backward();
  EXPECT_EQ(network.gradients(), gradients(false, [](const Network& n) { return n.output(); }));
}

// Lifetimes
// ------------------------------------------------------------------------------------------------------------

TEST(Recompute, ARetainedGraphComputesItAgainEachTime) {
  const Network network;
  const Variable loss = sum(square(network.output()));
  EXPECT_EQ(computed_again([&] { loss.backward({.gradient = {}, .retain_graph = true}); }).size(), 1u);
  const auto once = bits(network.filter.grad());
  EXPECT_EQ(computed_again([&] { loss.backward(); }).size(), 1u);
  const auto twice = bits(network.filter.grad());
  for (std::size_t i = 0; i < once.size(); ++i) ASSERT_EQ(twice[i], 2 * once[i]);
  TANDEM_EXPECT_ERROR(loss.backward(), "the graph was freed by an earlier backward");
}

TEST(Recompute, NothingOutlivesBackwardThoughTheActivationIsHeld) {
  const Network network;
  const Variable y = network.activation();
  const Variable loss = sum(square(network.convolution(y)));
  EXPECT_FALSE(network.x.data().is_unique());
  loss.backward();
  EXPECT_TRUE(network.x.data().is_unique());
}

// Of a deep network, most of half the memory is saved at the peak too: only one activation is computed at a time.
TEST(Recompute, ThePeakIsLower) {
  constexpr int kLayers = 10;
  const InputSpec images{{2, 16, 32, 32}, Layout::channels_last};
  const std::size_t activation = core::CachingAllocator::rounded_size(std::size_t{2} * 16 * 32 * 32 * sizeof(float));
  const Variable weight = make({{16}}, 2), bias = make({{16}}, 3), filter = make({{16, 16, 1, 1}}, 4);
  const auto peak = [&](bool recompute) {
    Variable y = make(images, 1);
    const std::size_t before = in_use();
    core::allocator(core::default_device()).reset_peak();
    for (int i = 0; i < kLayers; ++i)
      y = conv2d(batch_norm_training(y, weight, bias, kEps, nullptr, {.relu = true, .recompute = recompute}), filter,
                 {});
    sum(y).backward();
    return core::allocator(core::default_device()).statistics().peak - before;
  };
  peak(true);
  EXPECT_GE(peak(false) - peak(true), (kLayers - 2) * activation);
}

}  // namespace
}  // namespace tandem::autograd
