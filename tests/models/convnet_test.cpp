#include "tandem/models/convnet.h"

#include <gtest/gtest.h>

#include "tandem/core/ops/random_fill.h"
#include "tandem/models/mlp.h"
#include "tandem/models/model_zoo.h"
#include "tandem/nn/loss.h"
#include "tandem/optim/sgd.h"
#include "tests/errors.h"
#include "tests/golden/golden_file.h"

namespace tandem::models {
namespace {

using core::DType;
using core::Tensor;
using nn::Variable;
using testing::expect_near;
using testing::GoldenFile;

std::int64_t count_parameters(const nn::Module& model) {
  std::int64_t count = 0;
  for (const Variable& parameter : model.parameters()) count += parameter.data().numel();
  return count;
}

// The same formula as in make_convnet_golden.py: too large for the file.
Tensor fc1_weight() {
  std::vector<double> values(128 * 9216);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = (static_cast<double>(i * 7919 % 10007) / 10007 - 0.5) / 48;
  return Tensor::from(values, {128, 9216});
}

Tensor sums(const Tensor& matrix, int over) {
  const std::int64_t rows = matrix.size(0), columns = matrix.size(1);
  const auto values = matrix.to_vector<double>();
  std::vector<double> sum(static_cast<std::size_t>(over == 0 ? columns : rows));
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c)
      sum[static_cast<std::size_t>(over == 0 ? c : r)] += values[static_cast<std::size_t>(r * columns + c)];
  return Tensor::from(sum);
}

core::StateDict golden_weights(GoldenFile& file, nn::Module& model) {
  core::StateDict state;
  for (const auto& [name, variable] : model.named_parameters())
    state.emplace_back(name, name == "fc1.weight" ? fc1_weight() : file["parameter." + name]);
  return state;
}

void check_gradients(GoldenFile& file, const nn::Module& model, double tolerance) {
  for (const auto& [name, variable] : model.named_parameters()) {
    const Tensor& gradient = variable.grad();
    ASSERT_TRUE(gradient.defined()) << name;
    if (name != "fc1.weight") {
      expect_near(gradient, file["gradient." + name], tolerance, name);
      continue;
    }
    expect_near(gradient.slice(0, 0, 128, 16).slice(1, 0, 9216, 64), file["gradient.fc1.weight.grid"], tolerance, name);
    expect_near(sums(gradient, 1), file["gradient.fc1.weight.row_sums"], tolerance, name + " summed over rows");
    expect_near(sums(gradient, 0), file["gradient.fc1.weight.column_sums"], tolerance, name + " summed over columns");
  }
}

class ConvNetLikePyTorch : public ::testing::TestWithParam<std::pair<DType, double>> {};

TEST_P(ConvNetLikePyTorch, LogitsLossAndGradients) {
  const auto [dtype, tolerance] = GetParam();
  GoldenFile file("convnet.safetensors");
  core::Generator random(1);
  ConvNet model(random);
  model.eval();  // no dropout
  model.to(dtype);
  model.load_state_dict(golden_weights(file, model));
  Variable input(file["input"].to(dtype).clone(), true);
  const Variable logits = model.forward(input);
  const Variable loss = nn::cross_entropy(logits, file["target"]);
  expect_near(logits.data(), file["logits"], tolerance, "logits");
  expect_near(loss.data(), file["loss"], tolerance, "loss");
  loss.backward();
  expect_near(input.grad(), file["gradient.input"], tolerance, "gradient of the input");
  check_gradients(file, model, tolerance);
  file.expect_all_read();
}

INSTANTIATE_TEST_SUITE_P(Precision, ConvNetLikePyTorch,
                         ::testing::Values(std::pair{DType::float64, 1e-10}, std::pair{DType::float32, 5e-5}),
                         [](const auto& tested) { return std::string(core::name(tested.param.first)); });

TEST(ConvNet, HasItsParameters) {
  const auto model = make_model("convnet");
  EXPECT_EQ(count_parameters(*model), 1'199'882);
  std::vector<std::string> names;
  for (const auto& [name, variable] : model->named_parameters()) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias", "fc1.weight",
                                             "fc1.bias", "fc2.weight", "fc2.bias"}));
}

TEST(ConvNet, DropoutIsAFunctionOfTheRandomContext) {
  const auto model = make_model("convnet");
  const Variable x(Tensor::full({2, 1, 28, 28}, 0.5));
  const auto logits = [&](std::uint32_t step) {
    model->set_random_context({.seed = 3, .step = step});
    return model->forward(x).data().to_vector<float>();
  };
  const auto first = logits(0);
  EXPECT_NE(first, logits(1));
  EXPECT_EQ(first, logits(0));
}

TEST(Mlp, HasItsParametersAndTakesImages) {
  const auto model = make_model("mlp");
  EXPECT_EQ(count_parameters(*model), 784 * 256 + 256 + 256 * 10 + 10);
  EXPECT_EQ(model->forward(Variable(Tensor::zeros({3, 1, 28, 28}))).shape(), (core::Shape{3, 10}));
}

TEST(ModelZoo, SeedDecidesTheWeights) {
  const auto weights = [](std::uint64_t seed) {
    return make_model("mlp", {.seed = seed})->parameters()[0].data().to_vector<float>();
  };
  EXPECT_EQ(weights(1), weights(1));
  EXPECT_NE(weights(1), weights(2));
}

TEST(ModelZoo, UnknownNameListsTheKnown) {
  EXPECT_EQ(testing::error_of([] { make_model("convent"); }),
            "model: 'convent' is none of mlp, mlp-large, convnet, resnet18, resnet34, resnet50, resnet101, resnet152");
}

TEST(ModelZoo, OptionsShapeTheModel) {
  for (const std::string name : {"mlp", "mlp-large", "convnet"}) {
    const auto model = make_model(name, {.classes = 3, .in_channels = 2});
    EXPECT_EQ(model->forward(Variable(Tensor::zeros({2, 2, 28, 28}))).shape(), (core::Shape{2, 3})) << name;
  }
}

TEST(ModelZoo, OptionsThatDoNotFitAreRefused) {
  using testing::error_of;
  EXPECT_EQ(error_of([] { make_model("mlp", {.stem = Stem::small}); }),
            "model: mlp has no stem to choose, only ResNets have");
  EXPECT_EQ(error_of([] { make_model("convnet", {.zero_init_residual = true}); }),
            "model: convnet has no residual blocks to start from zero");
  EXPECT_EQ(error_of([] { make_model("convnet", {.recompute = true}); }),
            "model: convnet has no batch norms to compute again, only ResNets have");
  EXPECT_EQ(error_of([] { make_model("mlp", {.classes = 0}); }), "model: classes is 0, but must be positive");
  EXPECT_EQ(error_of([] { make_model("resnet18", {.in_channels = -1}); }),
            "model: in_channels is -1, but must be positive");
}

// A few steps on a fixed batch must learn it: gradients, optimizer and model fit together.
TEST(Models, LearnAFixedBatch) {
  for (const std::string name : {"mlp", "mlp-large", "convnet"}) {
    const auto model = make_model(name);
    model->eval();
    Tensor images = Tensor::empty({8, 1, 28, 28});
    core::fill_uniform(images, 0, 1, core::RandomContext{.seed = 1}.stream(0));
    const Tensor target = Tensor::from(std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7});
    // PyTorch's initial weights shrink what passes eight layers, so that these learn slowly at first.
    optim::Sgd sgd(model->parameters(), {.lr = name == "mlp-large" ? 0.1 : 0.05, .momentum = 0.9});
    double first = 0, last = 0;
    for (int step = 0; step < (name == "mlp-large" ? 60 : 20); ++step) {
      const Variable loss = nn::cross_entropy(model->forward(Variable(images)), target);
      sgd.zero_grad();
      loss.backward();
      sgd.step();
      (step == 0 ? first : last) = loss.data().item();
    }
    EXPECT_NEAR(first, 2.3, 0.3) << name;
    EXPECT_LT(last, 0.7 * first) << name;
  }
}

}  // namespace
}  // namespace tandem::models
