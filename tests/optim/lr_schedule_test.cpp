#include "tandem/optim/lr_schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "tandem/optim/sgd.h"
#include "tests/errors.h"

namespace tandem::optim {
namespace {

TEST(LrSchedule, ConstantWithWarmup) {
  const LrScheduleOptions options{.kind = LrScheduleKind::constant, .base_lr = 0.4, .warmup_steps = 4};
  for (const auto& [step, lr] :
       std::vector<std::pair<int, double>>{{0, 0.1}, {1, 0.2}, {2, 0.3}, {3, 0.4}, {4, 0.4}, {100, 0.4}})
    EXPECT_DOUBLE_EQ(learning_rate(options, step), lr) << step;
}

TEST(LrSchedule, LinearEndsAtTheFinalFactor) {
  LrScheduleOptions options{
      .kind = LrScheduleKind::linear, .base_lr = 1, .warmup_steps = 2, .total_steps = 12, .final_factor = 0.2};
  EXPECT_DOUBLE_EQ(learning_rate(options, 0), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(options, 2), 1);
  EXPECT_DOUBLE_EQ(learning_rate(options, 7), 0.6);
  EXPECT_DOUBLE_EQ(learning_rate(options, 12), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate(options, 50), 0.2) << "not below the end";
}

TEST(LrSchedule, CosineIsHalfAWave) {
  const LrScheduleOptions options{.kind = LrScheduleKind::cosine, .base_lr = 2, .total_steps = 10, .final_factor = 0.1};
  for (int step = 0; step <= 10; ++step)
    EXPECT_NEAR(learning_rate(options, step), 0.2 + 1.8 * (1 + std::cos(std::numbers::pi * step / 10)) / 2, 1e-15)
        << step;
  EXPECT_NEAR(learning_rate(options, 99), 0.2, 1e-15);
}

TEST(LrSchedule, StepMultipliesByGamma) {
  const LrScheduleOptions options{
      .kind = LrScheduleKind::step, .base_lr = 1, .warmup_steps = 1, .step_size = 3, .gamma = 0.5};
  const std::vector<double> expected{1, 1, 1, 1, 0.5, 0.5, 0.5, 0.25};
  for (std::size_t step = 0; step < expected.size(); ++step)
    EXPECT_DOUBLE_EQ(learning_rate(options, static_cast<std::int64_t>(step)), expected[step]) << step;
}

TEST(LrSchedule, SetsTheRateAndContinuesFromItsState) {
  const auto parameter = [] { return std::vector<Variable>{Variable(Tensor::zeros({1}), true)}; };
  Sgd sgd(parameter(), {.lr = 9}), other(parameter(), {.lr = 9});
  const LrScheduleOptions options{.kind = LrScheduleKind::linear, .base_lr = 1, .total_steps = 10};
  LrSchedule schedule(sgd, options), resumed(other, options);
  for (int i = 0; i < 4; ++i) {
    schedule.apply();
    EXPECT_DOUBLE_EQ(sgd.lr(), 1 - 0.1 * i);
    schedule.advance();
  }
  resumed.load_state_dict(schedule.state_dict());
  EXPECT_EQ(resumed.step(), 4);
  EXPECT_EQ(resumed.lr(), schedule.lr());
}

// Of what depends on the length, a longer schedule would go on with another rate.
TEST(LrSchedule, RefusesTheStateOfAnotherLength) {
  Sgd sgd({Variable(Tensor::zeros({1}), true)}, {});
  const auto make = [&](LrScheduleKind kind, std::int64_t total) {
    return LrSchedule(sgd, {.kind = kind, .base_lr = 1, .total_steps = total, .step_size = 3});
  };
  for (const auto kind : {LrScheduleKind::linear, LrScheduleKind::cosine}) {
    LrSchedule five = make(kind, 5), ten = make(kind, 10), same = make(kind, 5);
    for (int i = 0; i < 5; ++i) five.advance();
    EXPECT_EQ(
        testing::error_of([&] { ten.load_state_dict(five.state_dict()); }),
        "lr schedule: the state is of one over 5 updates, this one is over 10: the rate would jump from 0 to 0.5");
    EXPECT_EQ(ten.step(), 0);
    same.load_state_dict(five.state_dict());
    EXPECT_EQ(same.step(), 5);
    ten.load_state_dict({five.state_dict().front()});  // the length left out: the caller knows what he does
    EXPECT_EQ(ten.lr(), 0.5);
  }
  for (const auto kind : {LrScheduleKind::constant, LrScheduleKind::step}) {
    LrSchedule five = make(kind, 5), ten = make(kind, 10);
    five.advance();
    ten.load_state_dict(five.state_dict());
    EXPECT_EQ(ten.step(), 1);
  }
  LrSchedule schedule = make(LrScheduleKind::constant, 5);
  TANDEM_EXPECT_ERROR(schedule.load_state_dict({{"step", Tensor::scalar(-1, core::DType::int64)}}),
                      "lr schedule: \"step\" is -1, must be a number of updates");
}

TEST(LrSchedule, BadOptionsAndUnknownNames) {
  Sgd sgd({Variable(Tensor::zeros({1}), true)}, {});
  const auto error = [&](const LrScheduleOptions& options) {
    const std::string of_schedule = testing::error_of([&] { LrSchedule(sgd, options); });
    EXPECT_EQ(testing::error_of([&] { learning_rate(options, 0); }), of_schedule);
    return of_schedule;
  };
  EXPECT_EQ(error({.kind = LrScheduleKind::linear}),
            "lr schedule: linear and cosine need the number of steps, total_steps is 0");
  EXPECT_EQ(error({.kind = LrScheduleKind::cosine}),
            "lr schedule: linear and cosine need the number of steps, total_steps is 0");
  EXPECT_EQ(error({.kind = LrScheduleKind::step}), "lr schedule: step needs a step size >= 1, step_size is 0");
  EXPECT_EQ(error({.warmup_steps = -1}), "lr schedule: the warm-up steps are -1, must be a number >= 0");
  EXPECT_EQ(error({.base_lr = -1}), "lr schedule: the base rate is -1, must be a number >= 0");
  EXPECT_EQ(error({.base_lr = std::nan("")}), "lr schedule: the base rate is nan, must be a number >= 0");
  EXPECT_EQ(error({.final_factor = -1}), "lr schedule: the final factor is -1, must be a number >= 0");
  EXPECT_EQ(error({.gamma = std::nan("")}), "lr schedule: the gamma is nan, must be a number >= 0");
  EXPECT_EQ(parse_lr_schedule("cosine"), LrScheduleKind::cosine);
  EXPECT_EQ(testing::error_of([] { parse_lr_schedule("cosinus"); }),
            "lr schedule: 'cosinus' is none of constant, linear, cosine, step");
}

}  // namespace
}  // namespace tandem::optim
