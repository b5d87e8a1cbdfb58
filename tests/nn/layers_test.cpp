// Linear, Conv2d, BatchNorm2d, Dropout: shapes, first weights, modes, and gradients through the
// layer.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tandem/autograd/engine.h"
#include "tandem/autograd/gradcheck.h"
#include "tandem/core/allocator.h"
#include "tandem/core/ops/random_fill.h"
#include "tandem/nn/activation.h"
#include "tandem/nn/batch_norm2d.h"
#include "tandem/nn/conv2d.h"
#include "tandem/nn/dropout.h"
#include "tandem/nn/linear.h"
#include "tandem/nn/pooling.h"
#include "tandem/nn/sequential.h"
#include "tests/errors.h"
#include "tests/golden/golden_file.h"

namespace tandem::nn {
namespace {

using autograd::gradcheck;
using testing::expect_near;
using testing::GoldenFile;

Tensor uniform(const Shape& shape, DType dtype = DType::float32) {
  Tensor tensor = Tensor::empty(shape, {.dtype = dtype});
  core::fill_uniform(tensor, -1, 1, core::RandomContext{.seed = 9}.stream(1));
  return tensor;
}

// Uniform in +-bound: inside it, and reaching near it on both sides.
void expect_uniform(const Tensor& weights, double bound) {
  const auto values = weights.to_vector<double>();
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  EXPECT_GE(*low, -bound);
  EXPECT_LE(*high, bound);
  EXPECT_LT(*low, -0.9 * bound);
  EXPECT_GT(*high, 0.9 * bound);
  double squares = 0;
  for (const double value : values) squares += value * value;
  EXPECT_NEAR(std::sqrt(squares / static_cast<double>(values.size())), bound / std::sqrt(3), 0.1 * bound);
}

std::function<Variable(const std::vector<Variable>&)> forward_of(Module& layer) {
  return [&layer](const std::vector<Variable>& in) { return layer.forward(in[0]); };
}

// Finite differences with respect to input and parameters of a layer in float64.
void expect_gradients(Module& layer, const Shape& input) {
  layer.to(DType::float64);
  std::vector<Variable> inputs{Variable(uniform(input, DType::float64), true)};
  for (const Variable& parameter : layer.parameters()) inputs.push_back(parameter);
  const auto result = gradcheck(forward_of(layer), inputs);
  EXPECT_TRUE(result.ok) << result.message;
}

TEST(Linear, StartsUniformByFanIn) {
  Generator random(1);
  const Linear layer(100, 60, random);
  EXPECT_EQ(layer.weight().shape(), (Shape{60, 100}));
  expect_uniform(layer.weight().data(), 0.1);
  expect_uniform(layer.bias().data(), 0.1);
}

TEST(Linear, LayersOfOneGeneratorDiffer) {
  Generator random(1);
  const Linear a(10, 10, random), b(10, 10, random);
  EXPECT_NE(a.weight().data().to_vector<float>(), b.weight().data().to_vector<float>());
}

TEST(Linear, GradientsAndNoBias) {
  Generator random(1);
  Linear layer(4, 3, random), no_bias(4, 3, random, {.bias = false});
  EXPECT_EQ(no_bias.parameters().size(), 1u);
  expect_gradients(layer, {2, 5, 4});
  expect_gradients(no_bias, {5, 4});
}

TEST(Conv2d, StartsUniformByFanIn) {
  Generator random(1);
  const Conv2d layer(8, 30, {3, 3}, random, {.groups = 2});
  EXPECT_EQ(layer.weight().shape(), (Shape{30, 4, 3, 3}));
  expect_uniform(layer.weight().data(), 1 / std::sqrt(36.0));
}

TEST(Conv2d, StartsNormalByFanOutWhereAsked) {
  Generator random(1);
  const Conv2d layer(8, 40, {3, 3}, random, {.groups = 2, .init = Conv2dInit::normal_by_fan_out});
  const auto values = layer.weight().data().to_vector<double>();
  const auto deviation = std::sqrt(2 / (40 * 9.));  // fan-out counts all groups, as in PyTorch
  double sum = 0, squares = 0, beyond = 0;
  for (const double value : values) {
    sum += value;
    squares += value * value;
    beyond += std::abs(value) > deviation;
  }
  const auto n = static_cast<double>(values.size());
  EXPECT_NEAR(sum / n, 0, 3 * deviation / std::sqrt(n));
  EXPECT_NEAR(std::sqrt(squares / n), deviation, 0.05 * deviation);
  EXPECT_NEAR(beyond / n, 0.317, 0.04);  // normal, not uniform
  expect_uniform(layer.bias().data(), 1 / std::sqrt(36.0));
}

TEST(Conv2d, OptionsReachTheOperator) {
  Generator random(1);
  Conv2d layer(4, 6, {3, 3}, random,
               {.stride = {2, 1}, .padding = {1, 0}, .groups = 2, .activation = core::Activation::relu});
  const Variable y = layer.forward(Variable(uniform({2, 4, 7, 6})));
  EXPECT_EQ(y.shape(), (Shape{2, 6, 4, 4}));
  const auto values = y.data().to_vector<float>();
  EXPECT_GE(*std::min_element(values.begin(), values.end()), 0);
  expect_gradients(layer, {2, 4, 7, 6});
}

TEST(Conv2d, GroupsMustDivideTheChannels) {
  Generator random(1);
  EXPECT_THROW(Conv2d(3, 4, {1, 1}, random, {.groups = 2}), core::Error);
  EXPECT_THROW(Conv2d(4, 3, {1, 1}, random, {.groups = 2}), core::Error);
}

void expect_fused_like_pytorch(GoldenFile& file, const std::string& fused, const std::string& mode,
                               core::MemoryFormat format) {
  const std::string prefix = "batch_norm_" + fused + "." + mode + ".";
  SCOPED_TRACE(prefix);
  BatchNorm2d layer(3);
  layer.to(DType::float64);
  layer.train(mode == "train");
  for (auto& [name, tensor] : layer.state_dict())
    if (name != "num_batches_tracked") Tensor(tensor).copy_from(file[prefix + name]);
  const auto leaf = [&](const std::string& key) {
    return Variable(file[prefix + key].contiguous(format).clone(), true);
  };
  const Variable x = leaf("x"), residual = fused == "relu" ? Variable() : leaf("residual");
  const Variable y = fused == "relu"  ? layer.forward_relu(x)
                     : fused == "add" ? layer.forward_add(x, residual)
                                      : layer.forward_add_relu(x, residual);
  y.backward({.gradient = file[prefix + "dy"]});
  expect_near(y.data(), file[prefix + "y"], 1e-12, "y");
  expect_near(x.grad(), file[prefix + "dx"], 1e-11, "dx");
  expect_near(layer.weight().grad(), file[prefix + "dweight"], 1e-11, "dweight");
  expect_near(layer.bias().grad(), file[prefix + "dbias"], 1e-11, "dbias");
  if (residual.defined()) expect_near(residual.grad(), file[prefix + "dresidual"], 1e-12, "dresidual");
}

TEST(BatchNorm2d, LikePyTorch) {
  GoldenFile file("batch_norm.safetensors");
  for (const std::string name : {"batch_norm", "batch_norm_options"}) {
    const bool affine = name == "batch_norm";
    BatchNorm2d layer(3, affine ? BatchNormOptions{} : BatchNormOptions{.eps = 1e-3, .momentum = 0.3, .affine = false});
    layer.to(DType::float64);
    StateDict state = layer.state_dict();
    if (affine) {
      state[0].second.copy_from(file[name + ".weight"]);
      state[1].second.copy_from(file[name + ".bias"]);
    }
    for (const std::string step : {"0", "1"}) {
      const Variable y = layer.forward(Variable(file[name + ".x" + step]));
      expect_near(y.data(), file[name + ".y" + step], 1e-10, name + " output");
      const StateDict now = layer.state_dict();
      expect_near(core::find(now, "running_mean", "test"), file[name + ".running_mean" + step], 1e-10, name + " mean");
      expect_near(core::find(now, "running_var", "test"), file[name + ".running_var" + step], 1e-10,
                  name + " variance");
    }
    EXPECT_EQ(core::find(layer.state_dict(), "num_batches_tracked", "test").item(), 2);
    layer.eval();
    Variable x(file[name + ".eval.x"].clone(), true);
    const Variable y = layer.forward(x);
    expect_near(y.data(), file[name + ".eval.y"], 1e-10, name + " in evaluation");
    y.backward({.gradient = file[name + ".eval.dy"]});
    expect_near(x.grad(), file[name + ".eval.dx"], 1e-10, name + " gradient in evaluation");
  }
  for (const std::string fused : {"relu", "add", "add_relu"})
    for (const std::string mode : {"train", "eval"})
      for (const auto format : {core::MemoryFormat::contiguous, core::MemoryFormat::channels_last})
        expect_fused_like_pytorch(file, fused, mode, format);
  file.expect_all_read();
}

TEST(BatchNorm2d, EvaluationLeavesTheRunningStatisticsAlone) {
  BatchNorm2d layer(3);
  layer.eval();
  layer.forward(Variable(uniform({4, 3, 2, 2})));
  EXPECT_EQ(core::find(layer.state_dict(), "running_mean", "test").to_vector<float>(), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(core::find(layer.state_dict(), "num_batches_tracked", "test").item(), 0);
}

TEST(BatchNorm2d, OneValuePerChannelIsAnErrorButForPartialBatches) {
  BatchNorm2d layer(3);
  const auto state = [&](const std::string& name) { return core::find(layer.state_dict(), name, "test"); };
  for (const core::Shape& shape : {core::Shape{1, 3}, core::Shape{1, 3, 1, 1}}) {
    const Variable x(uniform(shape));
    TANDEM_EXPECT_ERROR(layer.forward(x), "batch norm: training needs more than one value per channel, got x " +
                                              shape.str() + ": use larger batches or larger images");
    const PartialBatchGuard outer;
    { const PartialBatchGuard inner; }
    EXPECT_EQ(layer.forward(x).data().to_vector<float>(), (std::vector<float>{0, 0, 0}));
  }
  TANDEM_EXPECT_ERROR(layer.forward(Variable(uniform({1, 3}))), "more than one value");
  layer.forward(Variable(Tensor::zeros({0, 3, 4, 4})));
  EXPECT_EQ(state("running_mean").to_vector<float>(), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(state("running_var").to_vector<float>(), (std::vector<float>{1, 1, 1}));
  EXPECT_EQ(state("num_batches_tracked").item(), 0);
}

// Its mask is found again from x, so y, where the next layer does not keep it, is free.
TEST(BatchNorm2d, ReluKeepsNothingForBackwardBesideTheInput) {
  BatchNorm2d layer(64);
  const Variable x(uniform({4, 64, 16, 16}), true);
  const auto in_use = [] { return core::allocator(core::default_device()).statistics().in_use; };
  const std::size_t before = in_use();
  const Variable loss = autograd::sum(layer.forward_relu(x));
  EXPECT_LT(in_use() - before, x.data().bytes() / 8);
  loss.backward();
  EXPECT_TRUE(x.grad().defined());
}

// Its output is then not kept by the convolution that follows either, in training and in evaluation.
TEST(BatchNorm2d, RecomputeKeepsNothingButTheInput) {
  core::Generator random(1);
  Conv2d next(64, 4, 1, random);
  const Variable x(uniform({4, 64, 16, 16}).contiguous(core::MemoryFormat::channels_last), true);
  const auto in_use = [] { return core::allocator(core::default_device()).statistics().in_use; };
  for (const bool training : {true, false})
    for (const bool relu : {true, false}) {
      const auto held = [&](bool recompute) {
        BatchNorm2d layer(64, {.recompute = recompute});
        layer.train(training);
        const std::size_t before = in_use();
        const Variable y = next.forward(relu ? layer.forward_relu(x) : layer.forward(x));
        return in_use() - before;
      };
      held(true);  // packs the convolution's weights
      EXPECT_EQ(held(false) - held(true), core::CachingAllocator::rounded_size(x.data().bytes()));
    }
}

TEST(BatchNorm2d, Gradients) {
  BatchNorm2d layer(3);
  expect_gradients(layer, {4, 3, 2, 2});
}

TEST(Dropout, ADrawIsWhatForwardWouldUseAndCountsAsOne) {
  Dropout layer(0.5);
  const Variable x(Tensor::full({64}, 1));
  const auto forward = [&] { return layer.forward(x).data().to_vector<float>(); };
  const auto drawn = [&] {
    const Dropout::Draw draw = layer.next_draw();
    EXPECT_EQ(draw.p, 0.5);
    return autograd::dropout(x, draw.p, draw.stream).data().to_vector<float>();
  };
  layer.set_random_context({.seed = 1, .step = 4});
  const auto first = forward(), second = forward(), third = forward();
  layer.set_random_context({.seed = 1, .step = 4});
  EXPECT_EQ(drawn(), first);
  EXPECT_EQ(forward(), second);
  EXPECT_EQ(drawn(), third);
  layer.eval();
  EXPECT_EQ(layer.next_draw().p, 0);
  layer.train();
  layer.set_p(0);
  EXPECT_EQ(layer.next_draw().p, 0);
}

TEST(Dropout, DropsAboutTheFractionAndScalesTheRest) {
  Dropout layer(0.3);
  layer.set_random_context({.seed = 1});
  const auto values = layer.forward(Variable(Tensor::full({100, 100}, 1))).data().to_vector<float>();
  const auto dropped = std::count(values.begin(), values.end(), 0.0f);
  EXPECT_NEAR(static_cast<double>(dropped), 3000, 150);  // three deviations
  for (const float value : values) EXPECT_TRUE(value == 0 || std::abs(value - 1 / 0.7f) < 1e-6f);
}

TEST(Dropout, IsAFunctionOfTheContextAndTheCall) {
  Dropout layer(0.5);
  const Variable x(Tensor::full({64}, 1));
  const auto draw = [&] { return layer.forward(x).data().to_vector<float>(); };
  layer.set_random_context({.seed = 1, .step = 4});
  const auto first = draw(), second = draw();
  EXPECT_NE(first, second);
  layer.set_random_context({.seed = 1, .step = 4});
  EXPECT_EQ(draw(), first);
  EXPECT_EQ(draw(), second);
  for (const core::RandomContext& other :
       {core::RandomContext{.seed = 2, .step = 4}, core::RandomContext{.seed = 1, .step = 5},
        core::RandomContext{.seed = 1, .epoch = 1, .step = 4}, core::RandomContext{.seed = 1, .step = 4, .shard = 1}}) {
    layer.set_random_context(other);
    EXPECT_NE(draw(), first);
  }
}

// Each module that draws has a number of its own, and only those are counted.
TEST(Dropout, ModulesOfAModelDrawOtherNumbers) {
  const auto masks = [](bool with_more) {
    Sequential net;
    net.add<Dropout>(0.5);
    if (with_more) net.add<ReLU>().add<Flatten>();
    net.add<Dropout>(0.5);
    net.set_random_context({.seed = 1});
    const Variable x(Tensor::full({4, 64}, 1));
    std::vector<std::vector<float>> all;
    for (Module* module : net.modules())
      if (auto* dropout = dynamic_cast<Dropout*>(module)) all.push_back(dropout->forward(x).data().to_vector<float>());
    return all;
  };
  const auto two = masks(false);
  ASSERT_EQ(two.size(), 2u);
  EXPECT_NE(two[0], two[1]);
  EXPECT_EQ(masks(true), two);
}

TEST(Dropout, DoesNothingInEvaluationOrWithProbabilityZero) {
  Dropout layer(0.5), zero(0);
  layer.eval();
  const Variable x(uniform({10}));
  EXPECT_TRUE(layer.forward(x).is(x));
  EXPECT_TRUE(zero.forward(x).is(x));
}

TEST(Dropout, ProbabilityMustBeOne) {
  EXPECT_THROW(Dropout(-0.1), core::Error);
  EXPECT_THROW(Dropout(1.1), core::Error);
  EXPECT_THROW(Dropout(std::nan("")), core::Error);
}

TEST(Activations, AreTheOperators) {
  const Variable x(uniform({4, 5}));
  EXPECT_EQ(ReLU().forward(x).data().to_vector<float>(), autograd::relu(x).data().to_vector<float>());
  EXPECT_EQ(Sigmoid().forward(x).data().to_vector<float>(), autograd::sigmoid(x).data().to_vector<float>());
  EXPECT_EQ(Tanh().forward(x).data().to_vector<float>(), autograd::tanh(x).data().to_vector<float>());
  EXPECT_EQ(Flatten().forward(Variable(uniform({2, 3, 4}))).shape(), (Shape{2, 12}));
}

TEST(Pooling, Shapes) {
  const Variable x(uniform({2, 3, 6, 8}));
  EXPECT_EQ(MaxPool2d({.kernel = {2, 2}}).forward(x).shape(), (Shape{2, 3, 3, 4}));
  EXPECT_EQ(AvgPool2d({.kernel = {3, 3}, .stride = {1, 1}}).forward(x).shape(), (Shape{2, 3, 4, 6}));
  EXPECT_EQ(AdaptiveAvgPool2d({1, 1}).forward(x).shape(), (Shape{2, 3, 1, 1}));
  EXPECT_EQ(AdaptiveMaxPool2d({2, 3}).forward(x).shape(), (Shape{2, 3, 2, 3}));
}

}  // namespace
}  // namespace tandem::nn
