// Layers of a model, read off the tapes of made-up ones.
#include "tools/train/report/layers.h"

#include <gtest/gtest.h>

#include <map>

#include "tandem/autograd/node.h"
#include "tandem/autograd/ops.h"
#include "tests/errors.h"

namespace tandem::train {
namespace {

using nn::Variable;

Variable parameter(const core::Shape& shape) { return Variable(core::Tensor::zeros(shape), true); }

/// An operator that nothing is known of but its name and inputs.
Variable some_op(const char* name, const core::Shape& output, const std::vector<Variable>& inputs) {
  return autograd::record(name, core::Tensor::zeros(output), inputs, [](core::Tensor, autograd::Gradients&) {});
}

TEST(Layers, multiply_adds_by_operator) {
  const Variable image = some_op("noise", {2, 6, 8, 8}, {parameter({1})});
  const Variable convolved = autograd::conv2d(image, parameter({4, 3, 3, 5}), {}, {.stride = {2, 1}, .groups = 2});
  EXPECT_EQ(layers_of(convolved, {}).back().multiply_adds, core::numel(convolved.shape()) * 3 * 3 * 5);

  const Variable left = parameter({2, 3, 4, 5}), right = parameter({2, 3, 5, 7});
  EXPECT_EQ(layers_of(autograd::matmul(left, right), {}).back().multiply_adds, 2 * 3 * 4 * 7 * 5);
  EXPECT_EQ(layers_of(autograd::matmul(left.detach(), right), {}).back().multiply_adds, 2 * 3 * 4 * 7 * 5);

  const Variable words = parameter({2, 9, 5}), constant = words.detach();
  EXPECT_EQ(layers_of(autograd::linear(words, parameter({7, 5}), parameter({7})), {}).back().multiply_adds,
            2 * 9 * 5 * 7);
  EXPECT_EQ(layers_of(autograd::linear(words, Variable(core::Tensor::zeros({7, 5})), {}), {}).back().multiply_adds,
            2 * 9 * 5 * 7);

  // q [N, S, D], k and v [N, T, D]: 2 N S T D
  const Variable q = parameter({2, 9, 6}), k = parameter({2, 11, 6}), v = parameter({2, 11, 6});
  EXPECT_EQ(layers_of(some_op("attention", {2, 9, 6}, {q, k, v}), {}).back().multiply_adds, 2 * 2 * 9 * 11 * 6);
  EXPECT_EQ(layers_of(some_op("attention", {2, 9, 6}, {q, k.detach(), v}), {}).back().multiply_adds,
            2 * 2 * 9 * 11 * 6);
  EXPECT_EQ(layers_of(q * q, {}).back().multiply_adds, 0);
}

TEST(Layers, what_the_tape_does_not_tell_is_not_guessed) {
  const Variable frozen(core::Tensor::zeros({4, 3, 3, 3}));
  const Variable image = some_op("noise", {2, 3, 8, 8}, {parameter({1})});
  EXPECT_FALSE(layers_of(autograd::conv2d(image, frozen, {}), {}).back().multiply_adds);
}

TEST(Layers, modules_come_from_parameters_and_what_is_shared_counts_once) {
  const Variable weight = parameter({5, 4}), bias = parameter({5}), scale = parameter({4}), idle = parameter({3, 3}),
                 idle_bias = parameter({3});
  const std::vector<nn::NamedParameter> named{{"table.weight", weight},
                                              {"head.bias", bias},
                                              {"scale", scale},
                                              {"pooler.dense.weight", idle},
                                              {"pooler.dense.bias", idle_bias}};
  const Variable x = autograd::embedding(weight, core::Tensor::from<std::int64_t>({0, 1, 2})) * scale;
  const auto layers = layers_of(autograd::relu(autograd::linear(x, weight, bias)), named);
  ASSERT_EQ(layers.size(), 5u);
  const auto expect = [&](std::size_t i, const char* module, const char* op, bool has, std::int64_t parameters) {
    EXPECT_EQ(layers[i].module, module) << i;
    EXPECT_EQ(layers[i].op, op) << i;
    EXPECT_EQ(layers[i].has_parameters, has) << i;
    EXPECT_EQ(layers[i].parameters, parameters) << i;
  };
  expect(0, "table", "embedding", true, 20);
  expect(1, "scale", "mul", true, 4);
  expect(2, "table + head", "linear", true, 5);  // the weight is counted already
  expect(3, "", "relu", false, 0);
  expect(4, "pooler.dense", "", true, 12);
}

TEST(Layers, sizes_grow_with_the_batch_where_they_do) {
  const auto of = [](std::int64_t rows) {
    const Variable words = parameter({9, 5});  // no batch in it
    const Variable x = some_op("lookup", {rows, 9, 5}, {words});
    return layers_of(
        autograd::linear(autograd::reshape(x + autograd::square(words), {rows * 9, 5}), parameter({4, 5}), {}), {});
  };
  const auto layers = layers_for(64, of(2), of(3));
  std::map<std::string, core::Shape> outputs;
  for (const Layer& layer : layers) outputs[layer.op] = layer.output;
  EXPECT_EQ(outputs["lookup"], (core::Shape{64, 9, 5}));
  EXPECT_EQ(outputs["square"], (core::Shape{9, 5}));
  EXPECT_EQ(outputs["linear"], (core::Shape{576, 4}));
  EXPECT_EQ(layers.back().multiply_adds, 9 * 5 * 4);
  TANDEM_EXPECT_ERROR(layers_for(64, of(2), layers_of(parameter({3}) * 2, {})),
                      "--summary: the model's operators depend on its data");
}

}  // namespace
}  // namespace tandem::train
