// Whole models with bfloat16 activations and float32 weights, against themselves in float32.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tandem/core/ops/random_fill.h"
#include "tandem/models/bert_heads.h"
#include "tandem/models/model_zoo.h"
#include "tandem/nn/loss.h"

namespace tandem::models {
namespace {

using core::DType;
using core::Tensor;
using nn::Variable;

double norm(const std::vector<double>& values) {
  double squares = 0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares);
}

// Gradients of all parameters after one backward, each as it lies in its leaf.
std::vector<Tensor> gradients_of(const nn::Module& model, const Variable& loss) {
  loss.backward();
  std::vector<Tensor> all;
  for (const Variable& parameter : model.parameters()) all.push_back(parameter.grad().clone());
  return all;
}

// Runs the model in both precisions. bfloat16 has 8 bits, so a value is off by up to 0.4 % and a gradient, through all
// layers, by several times that; its direction is that of float32's to `cosine` at least.
void expect_close_to_float32(nn::Module& model, const std::function<Variable(DType)>& loss_in, double cosine) {
  const Variable exact_loss = loss_in(DType::float32);
  const auto exact = gradients_of(model, exact_loss);
  model.zero_grad();
  const Variable loss = loss_in(DType::bfloat16);
  EXPECT_EQ(loss.dtype(), DType::float32);
  EXPECT_NE(loss.data().item(), exact_loss.data().item()) << "nothing was rounded";
  EXPECT_NEAR(loss.data().item(), exact_loss.data().item(), 0.02 * exact_loss.data().item());
  const auto rounded = gradients_of(model, loss);
  const auto names = model.named_parameters();
  double whole = 0;
  for (const Tensor& gradient : exact) whole += std::pow(norm(gradient.to_vector<double>()), 2);
  for (std::size_t i = 0; i < exact.size(); ++i) {
    EXPECT_EQ(rounded[i].dtype(), DType::float32) << names[i].name;
    const auto a = exact[i].to_vector<double>(), b = rounded[i].to_vector<double>();
    if (norm(a) < 1e-4 * std::sqrt(whole)) continue;  // zero but for roundings, as that of a key's bias
    double dot = 0;
    for (std::size_t k = 0; k < a.size(); ++k) dot += a[k] * b[k];
    EXPECT_GE(dot / (norm(a) * norm(b)), cosine) << names[i].name;
    EXPECT_NEAR(norm(b) / norm(a), 1, 0.1) << names[i].name;
  }
}

TEST(MixedPrecision, ResNetHasTheGradientsOfFloat32) {
  const auto model = make_model("resnet18", {.seed = 1, .classes = 10, .stem = Stem::small});
  Tensor images = Tensor::empty({8, 3, 32, 32});
  core::fill_normal(images, 0, 1, core::RandomContext{.seed = 3}.stream(0));
  std::vector<std::int64_t> classes;
  for (std::int64_t i = 0; i < 8; ++i) classes.push_back(i % 10);
  expect_close_to_float32(
      *model, [&](DType dtype) { return nn::cross_entropy(model->forward(images.to(dtype)), Tensor::from(classes)); },
      0.9);
}

class MixedPrecisionBert : public ::testing::TestWithParam<BertActivation> {};

TEST_P(MixedPrecisionBert, HasTheGradientsOfFloat32) {
  BertConfig config = bert_config("tiny");
  config.vocab_size = 500;
  config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0;
  config.hidden_act = GetParam();
  config.initializer_range = 0.1;
  core::Generator random(1);
  BertForPreTraining model(config, random);
  std::vector<std::int64_t> ids, labels, masks;
  for (std::int64_t i = 0; i < 4 * 40; ++i) {
    ids.push_back((i * 37 + 11) % 500);
    labels.push_back(i % 3 == 0 ? (i * 17) % 500 : -100);
    masks.push_back(i % 40 < 20 + 5 * (i / 40));
  }
  const auto tokens = [](const std::vector<std::int64_t>& values) { return Tensor::from(values, {4, 40}); };
  expect_close_to_float32(
      model,
      [&](DType dtype) {
        const auto output = model.forward({.input_ids = tokens(ids), .attention_mask = tokens(masks), .dtype = dtype});
        EXPECT_EQ(output.hidden.dtype(), dtype);
        return nn::cross_entropy(output.token_logits, Tensor::from(labels)) +
               nn::cross_entropy(output.next_sentence_logits, Tensor::from<std::int64_t>({0, 1, 1, 0}));
      },
      0.98);
}

INSTANTIATE_TEST_SUITE_P(Activations, MixedPrecisionBert,
                         ::testing::Values(BertActivation::gelu, BertActivation::gelu_tanh, BertActivation::relu),
                         [](const auto& tested) {
                           return std::string(tested.param == BertActivation::relu        ? "relu"
                                              : tested.param == BertActivation::gelu_tanh ? "gelu_tanh"
                                                                                          : "gelu");
                         });

}  // namespace
}  // namespace tandem::models
