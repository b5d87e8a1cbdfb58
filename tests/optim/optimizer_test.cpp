// What all optimizers promise: skipping, resuming, layouts, errors. Their numbers are compared in golden_test.cpp.
#include "tandem/optim/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>

#include "tandem/core/ops/random_fill.h"
#include "tandem/core/parallel.h"
#include "tandem/optim/adam.h"
#include "tandem/optim/clip_grad.h"
#include "tandem/optim/lamb.h"
#include "tandem/optim/lars.h"
#include "tandem/optim/sgd.h"
#include "tests/errors.h"

namespace tandem::optim {
namespace {

using core::DType;
using core::Shape;

Tensor uniform(const Shape& shape, std::uint32_t stream, DType dtype = DType::float32) {
  Tensor tensor = Tensor::empty(shape, {.dtype = dtype});
  core::fill_uniform(tensor, -1, 1, core::RandomContext{.seed = 4}.stream(stream));
  return tensor;
}

using testing::error_of;

using Make = std::function<std::unique_ptr<Optimizer>(std::vector<Variable>)>;

const std::vector<std::pair<std::string, Make>>& optimizers() {
  static const std::vector<std::pair<std::string, Make>> all{
      {"sgd",
       [](auto p) { return std::make_unique<Sgd>(p, SgdOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1}); }},
      {"nesterov",
       [](auto p) { return std::make_unique<Sgd>(p, SgdOptions{.lr = 0.1, .momentum = 0.9, .nesterov = true}); }},
      {"adam", [](auto p) { return std::make_unique<Adam>(p, AdamOptions{.lr = 0.1, .weight_decay = 0.1}); }},
      {"adamw",
       [](auto p) {
         return std::make_unique<Adam>(p, AdamOptions{.lr = 0.1, .weight_decay = 0.1, .decoupled_weight_decay = true});
       }},
      {"lars", [](auto p) { return std::make_unique<Lars>(p, LarsOptions{.weight_decay = 0.1}); }},
      {"lamb", [](auto p) { return std::make_unique<Lamb>(p, LambOptions{.lr = 0.1}); }},
      {"lamb_groups", [](auto p) { return std::make_unique<Lamb>(decay_matrices_only(p), LambOptions{.lr = 0.1}); }},
  };
  return all;
}

void give_gradients(std::vector<Variable>& parameters, std::uint32_t step) {
  for (std::size_t i = 0; i < parameters.size(); ++i)
    parameters[i].set_grad(
        uniform(parameters[i].shape(), 100 * (step + 1) + static_cast<std::uint32_t>(i), parameters[i].dtype()));
}

std::vector<Variable> make_parameters() {
  return {Variable(uniform({30, 7}, 0), true), Variable(uniform({5}, 1), true),
          Variable(uniform({3}, 2, DType::float64), true)};
}

std::vector<double> all_values(const std::vector<Variable>& parameters) {
  std::vector<double> all;
  for (const Variable& parameter : parameters)
    for (const double value : parameter.data().to_vector<double>()) all.push_back(value);
  return all;
}

TEST(Optimizer, ParametersWithoutGradientDoNotMove) {
  for (const auto& [name, make] : optimizers()) {
    auto parameters = make_parameters();
    const auto optimizer = make(parameters);
    give_gradients(parameters, 0);
    optimizer->step();
    const auto before = parameters[1].data().to_vector<float>(), moving = parameters[0].data().to_vector<float>();
    give_gradients(parameters, 1);
    parameters[1].set_grad({});  // it has momentum and weight decay, and yet
    optimizer->step();
    EXPECT_EQ(parameters[1].data().to_vector<float>(), before) << name;
    EXPECT_NE(parameters[0].data().to_vector<float>(), moving) << name;
  }
}

TEST(Optimizer, NoGradientAtAllAndEmptyParametersAreFine) {
  for (const auto& [name, make] : optimizers()) {
    std::vector<Variable> parameters{Variable(Tensor::zeros({0, 3}), true), Variable(uniform({2}, 0), true)};
    const auto optimizer = make(parameters);
    optimizer->step();
    EXPECT_TRUE(optimizer->state_dict().empty()) << name;
    parameters[0].set_grad(Tensor::zeros({0, 3}));
    optimizer->step();
    EXPECT_NO_THROW(make({})->step()) << name;
  }
}

TEST(Optimizer, ARestoredOneContinuesWithTheSameBits) {
  for (const auto& [name, make] : optimizers()) {
    auto undisturbed = make_parameters(), resumed = make_parameters();
    const auto optimizer = make(undisturbed);
    for (std::uint32_t step = 0; step < 3; ++step) {
      give_gradients(undisturbed, step);
      if (step == 0) undisturbed[1].set_grad({});  // so that its count of steps differs
      optimizer->step();
    }
    const auto restored = make(resumed);
    StateDict saved;
    for (const auto& [key, tensor] : optimizer->state_dict()) saved.emplace_back(key, tensor.clone());
    restored->load_state_dict(saved);
    for (std::size_t i = 0; i < resumed.size(); ++i) Tensor(resumed[i].data()).copy_from(undisturbed[i].data());
    for (std::uint32_t step = 3; step < 6; ++step) {
      give_gradients(undisturbed, step);
      give_gradients(resumed, step);
      optimizer->step();
      restored->step();
    }
    EXPECT_EQ(all_values(undisturbed), all_values(resumed)) << name;
    for (const auto& [key, tensor] : saved)
      EXPECT_FALSE(tensor.is_same_view(core::find(restored->state_dict(), key, "test")))
          << "loading must copy: " << key;
  }
}

TEST(Optimizer, BadStateIsRefusedAndChangesNothing) {
  for (const auto& [name, make] : optimizers()) {
    auto parameters = make_parameters();
    const auto optimizer = make(parameters);
    give_gradients(parameters, 0);
    optimizer->step();
    const StateDict before = optimizer->state_dict();
    const bool has_velocity = name == "sgd" || name == "nesterov" || name == "lars";
    const std::string kind = has_velocity ? "momentum_buffer" : "exp_avg";
    const auto error = [&](const std::string& key, const Shape& shape) {
      return error_of([&] { optimizer->load_state_dict({{key, Tensor::zeros(shape)}}); });
    };
    EXPECT_NE(error("0." + kind, {2}).find("'0." + kind + "' has shape [2], its parameter [30, 7]"), std::string::npos)
        << name;
    EXPECT_NE(error("7." + kind, {5}).find("for parameter 7 of 3"), std::string::npos) << name;
    EXPECT_NE(error("0.velocity", {30, 7}).find("'0.velocity' is not part of its state, which has " + kind),
              std::string::npos)
        << name;
    EXPECT_NE(error("nonsense", {1}).find("nonsense"), std::string::npos) << name;
    const StateDict after = optimizer->state_dict();
    ASSERT_EQ(after.size(), before.size()) << name;
    for (std::size_t i = 0; i < after.size(); ++i)
      EXPECT_EQ(after[i].second.to_vector<double>(), before[i].second.to_vector<double>());
  }
}

TEST(Optimizer, GradientsOfAnyLayout) {
  for (const auto& [name, make] : optimizers()) {
    std::vector<Variable> plain{Variable(uniform({4, 3, 2, 2}, 0), true)},
        odd{Variable(uniform({4, 3, 2, 2}, 0), true)};
    std::vector<Variable> odd_parameter{
        Variable(uniform({4, 3, 2, 2}, 0).contiguous(core::MemoryFormat::channels_last), true)};
    const auto a = make(plain), b = make(odd), c = make(odd_parameter);
    for (std::uint32_t step = 0; step < 3; ++step) {
      const Tensor gradient = uniform({4, 3, 2, 2}, 10 + step);
      Tensor sliced = Tensor::full({4, 3, 2, 5}, 1e9).slice(3, 1, 3);
      sliced.copy_from(gradient);
      const Tensor layouts[] = {gradient.contiguous(core::MemoryFormat::channels_last), sliced, gradient};
      plain[0].set_grad(gradient);
      odd[0].set_grad(layouts[step]);
      odd_parameter[0].set_grad(layouts[step]);
      a->step();
      b->step();
      c->step();
    }
    EXPECT_EQ(all_values(plain), all_values(odd)) << name;
    EXPECT_EQ(all_values(plain), all_values(odd_parameter)) << name;
  }
}

TEST(Optimizer, ThreadsDoNotMatter) {
  for (const auto& [name, make] : optimizers()) {
    std::vector<std::vector<double>> results;
    for (const int threads : {1, 2, 3}) {
      const int before = core::num_threads();
      core::set_num_threads(threads);
      std::vector<Variable> parameters{Variable(uniform({300, 257}, 0), true), Variable(uniform({5}, 1), true)};
      const auto optimizer = make(parameters);
      for (std::uint32_t step = 0; step < 2; ++step) {
        give_gradients(parameters, step);
        optimizer->step();
      }
      results.push_back(all_values(parameters));
      core::set_num_threads(before);
    }
    EXPECT_EQ(results[0], results[1]) << name;
    EXPECT_EQ(results[0], results[2]) << name;
  }
}

TEST(Optimizer, StateThatIsIncompleteOrOddIsRefused) {
  const auto parameters = make_parameters();
  Adam adam(parameters, {});
  Lamb lamb(parameters, {});
  const Tensor five = Tensor::zeros({5});
  const auto steps = [](double value) { return Tensor::scalar(value, DType::float64); };
  EXPECT_EQ(error_of([&] {
              adam.load_state_dict({{"1.exp_avg", five}, {"1.step", steps(3)}});
            }),
            "adam: the state of parameter 1 is incomplete: exp_avg, exp_avg_sq and step belong together");
  EXPECT_EQ(error_of([&] {
              lamb.load_state_dict({{"1.exp_avg", five}, {"1.exp_avg_sq", five}});
            }),
            "lamb: the state of parameter 1 is incomplete: exp_avg, exp_avg_sq and step belong together");
  for (const double value : {0.0, -1.0, 1e300, std::nan("")})
    TANDEM_EXPECT_ERROR(lamb.load_state_dict({{"1.step", steps(value)}}), "lamb: '1.step' is ");
  lamb.load_state_dict({{"1.exp_avg", five}, {"1.exp_avg_sq", five}, {"1.step", steps(3)}});
  EXPECT_EQ(core::find(lamb.state_dict(), "1.step", "test").item(), 3);
}

TEST(Optimizer, RefusesWhatItCannotTrain) {
  const Variable constant(Tensor::zeros({2})), leaf(Tensor::zeros({2}), true);
  TANDEM_EXPECT_ERROR(Sgd({leaf, constant}, {}), "parameter 1 is not a leaf");
  TANDEM_EXPECT_ERROR(Sgd({leaf, leaf}, {}), "parameter 1 of shape [2] is listed twice");
  EXPECT_THROW(Sgd({leaf}, {.nesterov = true}), core::Error);
  EXPECT_THROW(Sgd({leaf}, {.momentum = 0.9, .dampening = 0.1, .nesterov = true}), core::Error);
}

// A NaN or a wrong sign would show only as a loss that grows.
TEST(Optimizer, RefusesOptionsThatAreOutOfRange) {
  const std::vector<Variable> p{Variable(Tensor::zeros({2}), true)};
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  for (const double bad : {-1.0, nan, infinity}) {
    const std::string value = fmt::format(" is {}, must be a number >= 0", bad);
    EXPECT_EQ(error_of([&] { Sgd(p, {.lr = bad}); }), "sgd: the learning rate" + value);
    EXPECT_EQ(error_of([&] { Sgd(p, {.momentum = bad}); }), "sgd: the momentum" + value);
    EXPECT_EQ(error_of([&] { Sgd(p, {.weight_decay = bad}); }), "sgd: the weight decay" + value);
    EXPECT_EQ(error_of([&] { Adam(p, {.lr = bad}); }), "adam: the learning rate" + value);
    EXPECT_EQ(error_of([&] { Adam(p, {.eps = bad}); }), "adam: the eps" + value);
    EXPECT_EQ(error_of([&] { Adam(p, {.weight_decay = bad}); }), "adam: the weight decay" + value);
    EXPECT_EQ(error_of([&] { Lars(p, {.lr = bad}); }), "lars: the learning rate" + value);
    EXPECT_EQ(error_of([&] { Lars(p, {.momentum = bad}); }), "lars: the momentum" + value);
    EXPECT_EQ(error_of([&] { Lars(p, {.weight_decay = bad}); }), "lars: the weight decay" + value);
    EXPECT_EQ(error_of([&] { Lars(p, {.eps = bad}); }), "lars: the eps" + value);
    EXPECT_EQ(error_of([&] { Lars(p, {.trust_coefficient = bad}); }),
              fmt::format("lars: the trust coefficient is {}, must be a number > 0", bad));
    EXPECT_EQ(error_of([&] { Lamb(p, {.lr = bad}); }), "lamb: the learning rate" + value);
    EXPECT_EQ(error_of([&] { Lamb(p, {.eps = bad}); }), "lamb: the eps" + value);
    EXPECT_EQ(error_of([&] { Lamb(p, {.weight_decay = bad}); }), "lamb: the weight decay" + value);
    Sgd sgd(p, {});
    EXPECT_EQ(error_of([&] { sgd.set_lr(bad); }), "sgd: the learning rate" + value);
    EXPECT_EQ(sgd.lr(), 0.01);
  }
  EXPECT_EQ(error_of([&] { Lars(p, {.trust_coefficient = 0}); }),
            "lars: the trust coefficient is 0, must be a number > 0");
  EXPECT_EQ(error_of([&] { Sgd(p, {.dampening = nan}); }), "sgd: the dampening is nan, must be a number");
  for (const double bad : {-0.1, 1.0, nan}) {
    const std::string value = fmt::format(" is {}, must be a number >= 0 and < 1", bad);
    EXPECT_EQ(error_of([&] { Adam(p, {.beta1 = bad}); }), "adam: beta1" + value);
    EXPECT_EQ(error_of([&] { Adam(p, {.beta2 = bad}); }), "adam: beta2" + value);
    EXPECT_EQ(error_of([&] { Lamb(p, {.beta1 = bad}); }), "lamb: beta1" + value);
    EXPECT_EQ(error_of([&] { Lamb(p, {.beta2 = bad}); }), "lamb: beta2" + value);
  }
}

TEST(Optimizer, ZeroGrad) {
  auto parameters = make_parameters();
  Sgd sgd(parameters, {});
  give_gradients(parameters, 0);
  parameters[1].set_grad({});
  sgd.zero_grad(false);
  EXPECT_EQ(parameters[2].grad().to_vector<double>(), (std::vector<double>{0, 0, 0}));
  EXPECT_FALSE(parameters[1].grad().defined());
  sgd.zero_grad();
  EXPECT_FALSE(parameters[0].grad().defined());
}

// An optimizer's step is a change in place: backward through the old weights must be refused.
TEST(Optimizer, AStepIsNoticedByBackward) {
  auto parameters = make_parameters();
  const auto optimizer = optimizers()[0].second(parameters);
  give_gradients(parameters, 0);
  const std::uint64_t version = parameters[0].data().version();
  optimizer->step();
  EXPECT_GT(parameters[0].data().version(), version);
}

TEST(ClipGradNorm, SameBitsForAnyNumberOfThreads) {
  std::vector<Variable> parameters{Variable(Tensor::zeros({1000, 1003}), true), Variable(Tensor::zeros({17}), true)};
  give_gradients(parameters, 0);
  std::vector<double> norms;
  for (const int threads : {1, 2, 3}) {
    const int before = core::num_threads();
    core::set_num_threads(threads);
    norms.push_back(grad_norm(parameters).item());
    core::set_num_threads(before);
  }
  EXPECT_EQ(norms[0], norms[1]);
  EXPECT_EQ(norms[0], norms[2]);
  double squares = 0;
  for (const Variable& parameter : parameters)
    for (const double g : parameter.grad().to_vector<double>()) squares += g * g;
  EXPECT_NEAR(norms[0], std::sqrt(squares), 1e-10 * std::sqrt(squares));
}

TEST(ClipGradNorm, OddLayoutsAndBounds) {
  std::vector<Variable> parameters{Variable(Tensor::zeros({2, 3}), true), Variable(Tensor::zeros({2}), true)};
  Tensor whole = Tensor::full({2, 6}, 5);
  Tensor part = whole.slice(1, 0, 6, 2);
  part.fill(3);
  parameters[0].set_grad(part);  // norm sqrt(6 * 9)
  EXPECT_DOUBLE_EQ(clip_grad_norm(parameters, 100).item(), std::sqrt(54.0));
  EXPECT_EQ(part.to_vector<float>(), std::vector<float>(6, 3)) << "below the bound nothing is scaled";
  EXPECT_DOUBLE_EQ(clip_grad_norm(parameters, 1).item(), std::sqrt(54.0));
  EXPECT_NEAR(grad_norm(parameters).item(), 1, 1e-6);
  EXPECT_EQ(whole.slice(1, 1, 6, 2).to_vector<float>(), std::vector<float>(6, 5))
      << "only the gradient itself is scaled";
  EXPECT_THROW(clip_grad_norm(parameters, 0), core::Error);
  EXPECT_THROW(clip_grad_norm(parameters, std::nan("")), core::Error);
}

}  // namespace
}  // namespace tandem::optim
