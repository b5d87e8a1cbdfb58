#include "tandem/models/resnet.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "tandem/core/ops/conv2d.h"
#include "tandem/models/model_zoo.h"
#include "tandem/nn/loss.h"
#include "tandem/optim/sgd.h"
#include "tests/elements.h"
#include "tests/errors.h"
#include "tests/golden/golden_file.h"
#include "tests/models/golden_model.h"

namespace tandem::models {
namespace {

using core::DType;
using core::Tensor;
using nn::Variable;
using testing::error_of;
using testing::expect_near;
using testing::formula;
using testing::GoldenFile;

// ---- Structure

struct Members {
  std::size_t count;
  std::string hash;  // of "name [shape]" and a line feed for each
  bool operator==(const Members&) const = default;
};

Members parameters_of(const nn::Module& model) {
  std::string text;
  const auto members = model.named_parameters();
  for (const auto& [name, variable] : members) text += name + " " + variable.shape().str() + "\n";
  return {members.size(), fmt::format("{:016x}", core::fnv1a(text))};
}

Members buffers_of(nn::Module& model) {
  std::string text;
  const auto members = model.named_buffers();
  for (const auto& [name, tensor] : members) text += name + " " + tensor->shape().str() + "\n";
  return {members.size(), fmt::format("{:016x}", core::fnv1a(text))};
}

struct Counts {
  const char* name;
  std::int64_t parameters;
  std::size_t tensors;
  std::int64_t buffer_elements;
};

class ResNetStructure : public ::testing::TestWithParam<Counts> {};

TEST_P(ResNetStructure, IsTorchvisions) {
  const Counts& expected = GetParam();
  const auto model = make_model(expected.name);
  std::int64_t parameters = 0, buffer_elements = 0;
  for (const Variable& parameter : model->parameters()) parameters += parameter.data().numel();
  for (const auto& [name, tensor] : model->named_buffers()) buffer_elements += tensor->numel();
  EXPECT_EQ(parameters, expected.parameters);
  EXPECT_EQ(model->parameters().size(), expected.tensors);
  EXPECT_EQ(buffer_elements, expected.buffer_elements);

  std::ifstream file(TANDEM_TEST_DATA "/resnet_names.txt");
  std::string name;
  Members golden_parameters, golden_buffers;
  while (file >> name >> golden_parameters.count >> golden_parameters.hash >> golden_buffers.count >>
             golden_buffers.hash &&
         name != expected.name) {
  }
  ASSERT_EQ(name, expected.name);
  EXPECT_EQ(parameters_of(*model), golden_parameters);
  EXPECT_EQ(buffers_of(*model), golden_buffers);
  EXPECT_EQ(model->named_parameters().front().name, "conv1.weight");
  EXPECT_EQ(model->named_parameters().back().name, "fc.bias");
}

INSTANTIATE_TEST_SUITE_P(Depths, ResNetStructure,
                         ::testing::Values(Counts{"resnet18", 11'689'512, 62, 9'620},
                                           Counts{"resnet34", 21'797'672, 110, 17'060},
                                           Counts{"resnet50", 25'557'032, 161, 53'173},
                                           Counts{"resnet101", 44'549'160, 314, 105'448},
                                           Counts{"resnet152", 60'192'808, 467, 151'579}),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST(ResNet, OptionsShapeTheFirstAndTheLastLayer) {
  core::Generator random(1);
  ResNet model(random, {.depth = 18, .classes = 7, .in_channels = 2, .stem = Stem::small});
  const auto parameters = model.named_parameters();
  EXPECT_EQ(parameters.front().variable.shape(), (core::Shape{64, 2, 3, 3}));
  EXPECT_EQ(parameters.back().variable.shape(), (core::Shape{7}));
  EXPECT_EQ(model.forward(Variable(Tensor::full({2, 2, 9, 12}, 0.5))).shape(), (core::Shape{2, 7}));
}

TEST(ResNet, AnyImageSizePassesTheImagenetStem) {
  const auto model = make_model("resnet18", {.classes = 3});
  model->eval();  // a single value per channel at the end has no variance
  for (const std::int64_t size : {1, 31, 33, 65})
    EXPECT_EQ(model->forward(Variable(Tensor::zeros({1, 3, size, size + 3}))).shape(), (core::Shape{1, 3})) << size;
}

TEST(ResNet, OtherDepthsAreRefused) {
  core::Generator random(1);
  EXPECT_EQ(error_of([&] { ResNet(random, {.depth = 20}); }), "resnet: a depth of 20 is none of 18, 34, 50, 101, 152");
}

// ---- First weights

double norm_of(const Tensor& tensor) { return testing::norm(tensor.to_vector<double>()); }
double deviation(const Tensor& tensor) { return norm_of(tensor) / std::sqrt(static_cast<double>(tensor.numel())); }

TEST(ResNet, StartsFromKaimingNormalByFanOut) {
  const auto model = make_model("resnet50", {.seed = 4});
  for (const auto& [name, variable] : model->named_parameters()) {
    const Tensor& weight = variable.data();
    if (weight.rank() == 4) {
      const double fan_out = static_cast<double>(weight.size(0) * weight.size(2) * weight.size(3));
      EXPECT_NEAR(deviation(weight) / std::sqrt(2 / fan_out), 1, 0.05) << name;
    } else if (name == "fc.weight") {
      EXPECT_NEAR(deviation(weight) * std::sqrt(3 * 2048.), 1, 0.05);
    } else if (name != "fc.bias") {
      const double expected = name.ends_with(".weight") ? 1 : 0;
      for (const double value : weight.to_vector<double>()) ASSERT_EQ(value, expected) << name;
    }
  }
}

TEST(ResNet, ZeroInitResidualStartsFromTheShortcuts) {
  for (const std::string last : {"18 bn2", "50 bn3"}) {
    const auto model = make_model("resnet" + last.substr(0, 2), {.zero_init_residual = true});
    for (const auto& [name, variable] : model->named_parameters()) {
      if (name.find("bn") == std::string::npos || !name.ends_with(".weight")) continue;
      const bool is_last = name.starts_with("layer") && name.find(last.substr(3)) != std::string::npos;
      EXPECT_EQ(variable.data().to_vector<float>()[0], is_last ? 0 : 1) << name;
    }
  }
}

// ---- Values

// The same formulas as in make_resnet_golden.py.
// `off_kinks`: most values are well to one side of ReLU's kink, about which float32 and float64 may disagree, and a
// single value changes the gradient a thousand times as much as rounding does.
Tensor golden_weight(const std::string& name, const core::Shape& shape, bool off_kinks) {
  if (shape.rank() > 1)
    return formula(name, shape, 0, std::sqrt(static_cast<double>(6 * shape[0]) / static_cast<double>(numel(shape))));
  if (name.ends_with("weight")) return off_kinks ? formula(name, shape, 0.3, 0.03) : formula(name, shape, 1, 0.3);
  if (name == "fc.bias" || !off_kinks) return formula(name, shape, 0, 0.2);
  Tensor bias = formula(name, shape, 0, 0.05);
  testing::change<double>(bias, [&](double* values) {
    for (std::int64_t i = 0; i < bias.numel(); ++i)
      values[i] = static_cast<double>(static_cast<float>(values[i] + (i % 3 == 0 ? -1 : 1)));
  });
  return bias;
}

struct Config {
  int depth;
  Stem stem;
  std::string prefix() const { return fmt::format("resnet{}.{}.", depth, stem == Stem::small ? "small" : "imagenet"); }
};

std::shared_ptr<nn::Module> make(const Config& config) {
  return make_model(fmt::format("resnet{}", config.depth), {.classes = 10, .stem = config.stem});
}

// One backward in training mode.
struct Outcome {
  Tensor logits, loss;
  std::vector<Tensor> gradients;
  double norm = 0;  // of all of them

  Outcome(nn::Module& model, const Config& config, DType dtype, bool off_kinks) {
    model.to(dtype);
    for (const auto& [name, variable] : model.named_parameters())
      Tensor(variable.data()).copy_from(golden_weight(name, variable.shape(), off_kinks));
    model.zero_grad();
    const std::int64_t size = config.stem == Stem::small ? 32 : 64;
    const Variable outcome = model.forward(Variable(formula("input", {2, 3, size, size}).to(dtype)));
    const Variable value = nn::cross_entropy(outcome, Tensor::from(std::vector<std::int64_t>{3, 8}));
    value.backward();
    logits = outcome.data();
    loss = value.data();
    std::vector<double> norms;
    for (const Variable& parameter : model.parameters()) {
      gradients.push_back(parameter.grad());
      norms.push_back(norm_of(gradients.back()));
    }
    norm = testing::norm(norms);
  }
};

void expect_like_torchvision(GoldenFile& file, nn::Module& model, const Config& config) {
  const std::string prefix = config.prefix();
  const Outcome got(model, config, DType::float64, false);
  expect_near(got.logits, file[prefix + "logits"], 1e-10, "logits");
  expect_near(got.loss, file[prefix + "loss"], 1e-10, "loss");
  for (const auto& [name, tensor] : model.named_buffers())
    expect_near(testing::summary(*tensor), file[prefix + "buffer." + name], 1e-10, name);
  for (const auto& [name, variable] : model.named_parameters())
    expect_near(testing::summary(variable.grad()), file[prefix + "gradient." + name], 1e-10, name);
}

// Of PyTorch's error, since other orders of summation round otherwise.
constexpr double kOtherRounding = 3;

void expect_float32_as_exact_as_pytorch(GoldenFile& file, nn::Module& model, const Config& config) {
  const Outcome exact(model, config, DType::float64, true), got(model, config, DType::float32, true);
  const auto pytorchs = file[config.prefix() + "float32_errors"].to_vector<double>();
  const auto parameters = model.named_parameters();
  ASSERT_EQ(pytorchs.size(), parameters.size());
  EXPECT_NEAR(got.loss.item(), exact.loss.item(), 1e-5);
  for (std::size_t i = 0; i < parameters.size(); ++i)
    EXPECT_LE(testing::distance(got.gradients[i], exact.gradients[i]),
              kOtherRounding * std::max(pytorchs[i], 1e-7 * exact.norm))
        << parameters[i].name;
}

TEST(ResNet, LikeTorchvision) {
  GoldenFile file("resnet.safetensors");
  for (const Config& config : {Config{18, Stem::small}, Config{50, Stem::imagenet}}) {
    SCOPED_TRACE(config.prefix());
    const auto model = make(config);
    expect_like_torchvision(file, *model, config);
    expect_float32_as_exact_as_pytorch(file, *model, config);
  }
  file.expect_all_read();
}

TEST(ResNet, FusedActivationsStayChannelsLast) {
  const auto model = make_model("resnet50", {.classes = 10, .stem = Stem::small});
  const auto step = [&] {
    const Variable input(Tensor::full({2, 3, 8, 8}, 0.5, {.format = core::MemoryFormat::channels_last}));
    nn::cross_entropy(model->forward(input), Tensor::from(std::vector<std::int64_t>{3, 8})).backward();
  };
  const std::uint64_t before = core::reorder_statistics().activations;
  step();
  EXPECT_EQ(core::reorder_statistics().activations, before);
}

TEST(ResNet, LearnsAFixedBatch) {
  const auto model = make_model("resnet18", {.classes = 4, .in_channels = 1, .stem = Stem::small});
  const Variable images(formula("images", {8, 1, 12, 12}).to(DType::float32));
  const Tensor target = Tensor::from(std::vector<std::int64_t>{0, 1, 2, 3, 0, 1, 2, 3});
  optim::Sgd sgd(model->parameters(), {.lr = 0.02, .momentum = 0.9});
  double first = 0, last = 0;
  for (int step = 0; step < 8; ++step) {
    const Variable loss = nn::cross_entropy(model->forward(images), target);
    sgd.zero_grad();
    loss.backward();
    sgd.step();
    (step == 0 ? first : last) = loss.data().item();
  }
  EXPECT_NEAR(first, 1.6, 0.6);
  EXPECT_LT(last, 0.3 * first);
}

TEST(ResNet, Bfloat16IsAboutFloat32) {
  const Config config{18, Stem::small};
  const auto model = make(config);
  const Outcome wide(*model, config, DType::float32, true), narrow(*model, config, DType::bfloat16, true);
  EXPECT_NEAR(narrow.loss.item(), wide.loss.item(), 0.03 * wide.loss.item());
  for (const Tensor& gradient : narrow.gradients) {
    ASSERT_EQ(gradient.dtype(), DType::bfloat16);
    ASSERT_TRUE(std::isfinite(norm_of(gradient)));
  }
  const std::size_t fc = wide.gradients.size() - 2;
  EXPECT_LE(testing::distance(narrow.gradients[fc], wide.gradients[fc]), 0.05 * norm_of(wide.gradients[fc]));
}

}  // namespace
}  // namespace tandem::models
