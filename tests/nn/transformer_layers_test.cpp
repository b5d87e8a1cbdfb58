// LayerNorm and Embedding: first weights, options, and gradients through the layer.
#include <gtest/gtest.h>

#include "tandem/autograd/engine.h"
#include "tandem/autograd/gradcheck.h"
#include "tandem/core/ops/random_fill.h"
#include "tandem/nn/embedding.h"
#include "tandem/nn/layer_norm.h"
#include "tests/errors.h"

namespace tandem::nn {
namespace {

Tensor uniform(const Shape& shape, DType dtype = DType::float32) {
  Tensor tensor = Tensor::empty(shape, {.dtype = dtype});
  core::fill_uniform(tensor, -1, 1, core::RandomContext{.seed = 9}.stream(1));
  return tensor;
}

TEST(LayerNorm, StartsAsPlainNormalisation) {
  LayerNorm layer(4);
  EXPECT_EQ(layer.eps(), 1e-5);
  EXPECT_EQ(layer.named_parameters().at(0).name, "weight");
  EXPECT_EQ(layer.named_parameters().at(1).name, "bias");
  EXPECT_EQ(layer.weight().data().to_vector<float>(), (std::vector<float>(4, 1)));
  EXPECT_EQ(layer.bias().data().to_vector<float>(), (std::vector<float>(4, 0)));
  const auto y = layer.forward(Variable(Tensor::from<float>({1, 1, 3, 3}, {1, 4}))).data().to_vector<float>();
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(y[i], i < 2 ? -1 : 1, 1e-5);
}

TEST(LayerNorm, EpsReachesTheOperator) {
  LayerNorm layer(2, 3);
  const auto y = layer.forward(Variable(Tensor::from<float>({1, 3}, {1, 2}))).data().to_vector<float>();
  EXPECT_NEAR(y[1], 0.5, 1e-6);  // 1 / sqrt(1 + 3)
}

TEST(LayerNorm, Gradients) {
  LayerNorm layer(5);
  layer.to(DType::float64);
  std::vector<Variable> inputs{Variable(uniform({2, 3, 5}, DType::float64), true)};
  for (const Variable& parameter : layer.parameters()) inputs.push_back(parameter);
  const auto result =
      autograd::gradcheck([&](const std::vector<Variable>& in) { return layer.forward(in[0]); }, inputs);
  EXPECT_TRUE(result.ok) << result.message;
}

TEST(Embedding, StartsNormalWithAZeroRowForPadding) {
  Generator random(1);
  const Embedding plain(200, 50, random), padded(200, 50, random, {.padding_idx = 3});
  EXPECT_EQ(plain.weight().shape(), (Shape{200, 50}));
  EXPECT_EQ(padded.padding_idx(), 3);
  double sum = 0, squares = 0;
  for (const double value : plain.weight().data().to_vector<double>()) {
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / 1e4, 0, 0.04);
  EXPECT_NEAR(squares / 1e4, 1, 0.06);
  EXPECT_EQ(padded.weight().data().select(0, 3).to_vector<float>(), std::vector<float>(50, 0));
  EXPECT_NE(padded.weight().data().select(0, 2).to_vector<float>(), std::vector<float>(50, 0));
}

TEST(Embedding, LooksUpRowsAndGivesTheirGradients) {
  Generator random(1);
  Embedding layer(4, 2, random, {.padding_idx = 0});
  const Variable y = layer.forward(Tensor::from<std::int64_t>({1, 3, 1, 0}, {2, 2}));
  EXPECT_EQ(y.shape(), (Shape{2, 2, 2}));
  EXPECT_EQ(y.data().select(0, 0).select(0, 1).to_vector<float>(),
            layer.weight().data().select(0, 3).to_vector<float>());
  autograd::sum(y).backward();
  EXPECT_EQ(layer.weight().grad().to_vector<float>(), (std::vector<float>{0, 0, 2, 2, 0, 0, 1, 1}));
}

TEST(Embedding, ErrorsNameTheRule) {
  Generator random(1);
  TANDEM_EXPECT_ERROR(Embedding(4, 2, random, {.padding_idx = 4}),
                      "embedding: padding_idx 4 is not one of the 4 rows, nor -1");
  TANDEM_EXPECT_ERROR(Embedding(4, 2, random, {.padding_idx = -2}),
                      "embedding: padding_idx -2 is not one of the 4 rows, nor -1");
  Embedding layer(4, 2, random);
  TANDEM_EXPECT_ERROR(layer.forward(Variable(uniform({2}))), "forward with a single input is not what this module");
}

}  // namespace
}  // namespace tandem::nn
