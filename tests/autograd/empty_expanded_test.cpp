// Empty tensors that were expanded: strides of 0 between no elements. They are read, written and accumulated like
// others.
#include <gtest/gtest.h>

#include "tandem/autograd/engine.h"
#include "tandem/autograd/ops.h"
#include "tests/autograd/operator_cases.h"

namespace tandem::autograd::testing {
namespace {

// Made of the smallest empty tensor that expands to `shape`.
Tensor expanded(const Shape& shape, DType dtype) {
  Shape smallest = shape;
  for (int i = 0; i < smallest.rank(); ++i) smallest[i] = std::min<std::int64_t>(smallest[i], 1);
  return Tensor::zeros(smallest, {.dtype = dtype}).expand(shape);
}

Tensor values_for(const InputSpec& spec, int seed, DType dtype, bool expand) {
  if (expand && core::numel(spec.shape) == 0) return expanded(spec.shape, dtype);
  return make_values(spec, seed).to(dtype);
}

// Outputs and gradients of two backwards, the second of which accumulates.
std::vector<Tensor> results(const OperatorCase& c, DType dtype, bool expand) {
  Inputs inputs;
  for (const InputSpec& spec : c.inputs)
    inputs.emplace_back(values_for(spec, static_cast<int>(inputs.size()), dtype, expand), true);
  std::vector<Tensor> all;
  for (int pass = 0; pass < 2; ++pass) {
    const Variable y = c.function(inputs);
    y.backward({.gradient = values_for({y.shape()}, 99, y.dtype(), expand)});
    all.push_back(y.data());
  }
  for (const Variable& input : inputs) all.push_back(input.grad());
  return all;
}

bool has_empty_input(const OperatorCase& c) {
  return std::any_of(c.inputs.begin(), c.inputs.end(), [](const auto& spec) { return core::numel(spec.shape) == 0; });
}

TEST(EmptyExpanded, EveryOperatorTakesThemAsItTakesOtherEmptyTensors) {
  int cases = 0;
  for (const OperatorCase& c : operator_cases()) {
    if (!has_empty_input(c)) continue;
    ++cases;
    for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16}) {
      SCOPED_TRACE(c.op + "." + c.name + " " + std::string(name(dtype)));
      try {
        const std::vector<Tensor> got = results(c, dtype, true), wanted = results(c, dtype, false);
        for (std::size_t i = 0; i < wanted.size(); ++i) {
          ASSERT_EQ(got[i].defined(), wanted[i].defined()) << i;
          if (!wanted[i].defined()) continue;
          EXPECT_EQ(got[i].shape(), wanted[i].shape()) << i;
          EXPECT_EQ(largest_difference(got[i], wanted[i]), 0) << i;
        }
      } catch (const core::Error& error) {
        ADD_FAILURE() << error.what();
      }
    }
  }
  EXPECT_GT(cases, 30);
}

// Sums send back expanded gradients; two of them meet at y.
TEST(EmptyExpanded, GradientsOfSumsAccumulate) {
  const Variable x(Tensor::zeros({2, 0}), true);
  const Variable y = tanh(x);
  (sum(y) + sum(y * y)).backward();
  EXPECT_EQ(x.grad().shape(), (Shape{2, 0}));
}

TEST(EmptyExpanded, ALinearLayerOverNoRowsGetsZeros) {
  const Variable x(Tensor::zeros({0, 3})), weight(Tensor::zeros({2, 3}), true), bias(Tensor::zeros({2}), true);
  const Variable y = linear(x, weight, bias);
  (sum(y * 2.0) + sum(square(y))).backward();
  EXPECT_EQ(weight.grad().to_vector<float>(), std::vector<float>(6, 0));
  EXPECT_EQ(bias.grad().to_vector<float>(), std::vector<float>(2, 0));
}

}  // namespace
}  // namespace tandem::autograd::testing
