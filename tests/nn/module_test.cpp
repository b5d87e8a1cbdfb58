#include "tandem/nn/module.h"

#include <gtest/gtest.h>

#include "tandem/nn/activation.h"
#include "tandem/nn/batch_norm2d.h"
#include "tandem/nn/conv2d.h"
#include "tandem/nn/dropout.h"
#include "tandem/nn/linear.h"
#include "tandem/nn/sequential.h"
#include "tests/errors.h"

namespace tandem::nn {
namespace {

using testing::error_of;

class Small final : public Module {
 public:
  explicit Small(std::uint64_t seed = 0) : random_(seed), fc_(2, 3, random_), norm_(3), drop_(0.5) {
    register_module("fc", fc_);
    register_module("norm", norm_);
    register_module("drop", drop_);
  }
  Variable forward(const Variable& x) override { return drop_.forward(norm_.forward(fc_.forward(x))); }
  Module& fc() { return fc_; }

 private:
  Generator random_;
  Linear fc_;
  BatchNorm2d norm_;
  Dropout drop_;
};

// Two names for one layer.
class Shared final : public Module {
 public:
  explicit Shared(Generator& random) : layer_(2, 2, random) {
    register_module("first", layer_);
    register_module("second", layer_);
  }

 private:
  Linear layer_;
};

std::vector<std::string> names_of(const StateDict& state) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : state) names.push_back(name);
  return names;
}

StateDict copy_of(const StateDict& state) {
  StateDict copy;
  for (const auto& [name, tensor] : state) copy.emplace_back(name, tensor.clone());
  return copy;
}

TEST(Module, NamesFollowTheOrderOfRegistration) {
  Small model;
  EXPECT_EQ(names_of(model.state_dict()),
            (std::vector<std::string>{"fc.weight", "fc.bias", "norm.weight", "norm.bias", "norm.running_mean",
                                      "norm.running_var", "norm.num_batches_tracked"}));
  EXPECT_EQ(model.named_parameters().size(), 4u);
  EXPECT_EQ(model.named_buffers().size(), 3u);
}

TEST(Module, SharedParametersAppearOnceUnderTheirFirstName) {
  Generator random;
  Shared model(random);
  ASSERT_EQ(model.named_parameters().size(), 2u);
  EXPECT_EQ(model.named_parameters()[0].name, "first.weight");
  EXPECT_EQ(model.parameters().size(), 2u);
}

TEST(Module, StateDictSharesMemoryAndLoadsBack) {
  Small a(1), b(2);
  a.forward(Variable(Tensor::from(std::vector<float>{1, 2, 3, 5}, {2, 2})));  // moves the buffers
  b.load_state_dict(a.state_dict());
  const StateDict from = a.state_dict(), to = b.state_dict();
  for (std::size_t i = 0; i < from.size(); ++i) {
    EXPECT_EQ(from[i].second.to_vector<double>(), to[i].second.to_vector<double>()) << from[i].first;
    EXPECT_FALSE(from[i].second.is_same_view(to[i].second)) << "copied, not shared";
  }
  Tensor bias = to[1].second;
  bias.fill(7);
  EXPECT_EQ(b.parameters()[1].data().to_vector<float>(), (std::vector<float>{7, 7, 7}));
}

TEST(Module, LoadErrorsListAllNamesAndChangeNothing) {
  Small model;
  const StateDict before = copy_of(model.state_dict());
  StateDict state = copy_of(before);
  for (auto& [name, tensor] : state) tensor.fill(9);
  state[0].first = "fc.wieght";
  state[2].first = "extra";
  EXPECT_EQ(error_of([&] { model.load_state_dict(state); }),
            "load_state_dict: missing: fc.weight norm.weight; unexpected: fc.wieght extra");
  state = copy_of(before);
  for (auto& [name, tensor] : state) tensor.fill(9);
  state[3].second = Tensor::zeros({4});
  const std::string error = error_of([&] { model.load_state_dict(state); });
  EXPECT_NE(error.find("norm.bias has shape [4], the model's is [3]"), std::string::npos) << error;
  const StateDict after = model.state_dict();
  for (std::size_t i = 0; i < after.size(); ++i)
    EXPECT_EQ(after[i].second.to_vector<double>(), before[i].second.to_vector<double>()) << after[i].first;
}

TEST(Module, LoadMatchingTakesWhatBothHave) {
  Small model;
  const StateDict before = copy_of(model.state_dict());
  StateDict state = copy_of(before);
  for (auto& [name, tensor] : state) tensor.fill(9);
  state[0].first = "extra";
  const NameDifference difference = model.load_matching(state);
  EXPECT_EQ(difference.str(), "missing: " + before[0].first + "; unexpected: extra");
  StateDict after = model.state_dict();
  EXPECT_EQ(after[0].second.to_vector<double>(), before[0].second.to_vector<double>());
  for (std::size_t i = 1; i < after.size(); ++i)
    for (const double value : after[i].second.to_vector<double>()) EXPECT_EQ(value, 9) << after[i].first;

  state[3].second = Tensor::zeros({4});
  for (auto& [name, tensor] : state) tensor.fill(5);
  EXPECT_NE(error_of([&] { model.load_matching(state); }).find("norm.bias has shape [4]"), std::string::npos);
  after = model.state_dict();
  for (std::size_t i = 1; i < after.size(); ++i)
    for (const double value : after[i].second.to_vector<double>()) EXPECT_EQ(value, 9) << after[i].first;
}

TEST(Module, ManyNamesAreCutShort) {
  const NameDifference difference{.missing = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}, .unexpected = {}};
  EXPECT_EQ(difference.str(), "missing: a b c d e f g h and 2 more; unexpected: none");
}

TEST(Module, LoadingKeepsTheDtypeAndIsSeenByBackward) {
  Small model;
  StateDict state = copy_of(model.state_dict());
  for (auto& [name, tensor] : state)
    if (core::is_floating(tensor.dtype())) tensor = tensor.to(DType::float64);
  model.load_state_dict(state);
  for (const Variable& parameter : model.parameters()) EXPECT_EQ(parameter.dtype(), DType::float32);
}

TEST(Module, ToFloat64ConvertsParametersAndBuffersAndLeavesIntegers) {
  Small model;
  const auto before = model.parameters()[0].data().to_vector<double>();
  model.to(DType::float64);
  for (const auto& [name, tensor] : model.state_dict())
    EXPECT_EQ(tensor.dtype(), name == "norm.num_batches_tracked" ? DType::int64 : DType::float64) << name;
  EXPECT_EQ(model.parameters()[0].data().to_vector<double>(), before);
  for (const Variable& parameter : model.parameters()) EXPECT_TRUE(parameter.requires_grad());
  const Variable y = model.forward(Variable(Tensor::from(std::vector<double>{1, 2, 3, 5}, {2, 2})));
  EXPECT_EQ(y.dtype(), DType::float64);
  TANDEM_EXPECT_ERROR(model.to(DType::int64), "int64");
}

TEST(Module, TrainAndEvalReachAllBelow) {
  Small model;
  EXPECT_TRUE(model.is_training());
  model.eval();
  EXPECT_FALSE(model.fc().is_training());
  model.train();
  EXPECT_TRUE(model.fc().is_training());
}

TEST(Module, ZeroGradForgetsAllGradients) {
  Small model;
  autograd::sum(model.forward(Variable(Tensor::from(std::vector<float>{1, 2, 3, 5}, {2, 2})))).backward();
  for (const auto& [name, variable] : model.named_parameters()) EXPECT_TRUE(variable.grad().defined()) << name;
  model.zero_grad();
  for (const auto& [name, variable] : model.named_parameters()) EXPECT_FALSE(variable.grad().defined()) << name;
}

TEST(Module, WithoutASingleInputForwardSaysSo) {
  Generator random;
  Shared model(random);
  TANDEM_EXPECT_ERROR(model.forward(Variable()), "forward");
}

// Registering gives back what was registered, so that a member is made and registered in one line.
class Stack final : public Module {
 public:
  explicit Stack(Generator& random)
      : first_(register_module("first", std::make_shared<Linear>(4, 3, random))),
        scale_(register_parameter("scale", Tensor::full({3}, 2))) {
    for (int i = 0; i < 2; ++i) shared_.push_back(std::make_shared<Linear>(3, 3, random));
    for (int i = 0; i < 2; ++i) own_.push_back(std::make_unique<Linear>(3, 3, random));
    register_modules("shared", shared_);
    register_modules("own", own_);
    Tensor& seen = register_buffer("seen", seen_);
    EXPECT_EQ(&seen, &seen_);
    EXPECT_EQ(&register_module("last", last_), &last_);
    register_module("kept", std::make_shared<Linear>(1, 1, random));  // by the module alone
    EXPECT_EQ(error_of([&] { register_module("none", std::shared_ptr<Linear>()); }), "module: none is a null pointer");
  }
  Variable forward(const Variable& x) override {
    Variable y = autograd::mul(first_->forward(x), scale_);
    for (const auto& layer : shared_) y = layer->forward(y);
    for (const auto& layer : own_) y = layer->forward(y);
    return last_.forward(y);
  }

 private:
  std::shared_ptr<Linear> first_;
  Variable scale_;
  std::vector<std::shared_ptr<Linear>> shared_;
  std::vector<std::unique_ptr<Linear>> own_;
  Tensor seen_ = Tensor::zeros({1});
  ReLU last_;
};

TEST(Module, RegisteringReturnsWhatWasRegisteredAndTakesLists) {
  Generator random(1);
  Stack stack(random);
  std::vector<std::string> names;
  for (const auto& [name, variable] : stack.named_parameters()) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"scale", "first.weight", "first.bias", "shared.0.weight", "shared.0.bias",
                                             "shared.1.weight", "shared.1.bias", "own.0.weight", "own.0.bias",
                                             "own.1.weight", "own.1.bias", "kept.weight", "kept.bias"}));
  EXPECT_EQ(stack.forward(Variable(Tensor::zeros({2, 4}))).shape(), (Shape{2, 3}));
}

TEST(Module, MembersHaveNamesOfTheirOwn) {
  struct Twice : Module {
    explicit Twice(const std::string& second) {
      register_parameter("w", Tensor::zeros({1}));
      register_buffer(second, buffer);
    }
    Tensor buffer = Tensor::zeros({2});
  };
  EXPECT_NE(error_of([] { Twice twice("w"); }).find("a member named w is registered already"), std::string::npos);
  EXPECT_NE(error_of([] { Twice nameless(""); }).find("needs a name"), std::string::npos);
  Twice fine("b");
  struct Self : Module {
    Self() { register_module("me", *this); }
  };
  EXPECT_NE(error_of([] { Self self; }).find("me would be a part of itself"), std::string::npos);
}

TEST(Sequential, RefusesNoLayerAndTakesSquareKernels) {
  Generator random;
  Sequential net;
  EXPECT_NE(error_of([&] { net.add(std::unique_ptr<Module>()); }).find("layer 0 is null"), std::string::npos);
  net.add<Conv2d>(1, 2, 3, random);
  EXPECT_EQ(net.forward(Variable(Tensor::zeros({1, 1, 5, 4}))).shape(), (Shape{1, 2, 3, 2}));
}

TEST(Sequential, NamesArePositions) {
  Generator random;
  Sequential net;
  net.add<Linear>(2, 3, random).add<ReLU>().add<Linear>(3, 1, random, LinearOptions{.bias = false});
  EXPECT_EQ(names_of(net.state_dict()), (std::vector<std::string>{"0.weight", "0.bias", "2.weight"}));
  EXPECT_EQ(net.forward(Variable(Tensor::zeros({5, 2}))).shape(), (Shape{5, 1}));
}

}  // namespace
}  // namespace tandem::nn
