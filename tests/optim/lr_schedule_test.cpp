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

TEST(LrSchedule, MissingOptionsAndUnknownNames) {
  Sgd sgd({Variable(Tensor::zeros({1}), true)}, {});
  EXPECT_THROW(LrSchedule(sgd, {.kind = LrScheduleKind::linear}), core::Error);
  EXPECT_THROW(LrSchedule(sgd, {.kind = LrScheduleKind::cosine}), core::Error);
  EXPECT_THROW(LrSchedule(sgd, {.kind = LrScheduleKind::step}), core::Error);
  EXPECT_THROW(LrSchedule(sgd, {.warmup_steps = -1}), core::Error);
  EXPECT_EQ(parse_lr_schedule("cosine"), LrScheduleKind::cosine);
  EXPECT_EQ(testing::error_of([] { parse_lr_schedule("cosinus"); }),
            "lr schedule: 'cosinus' is none of constant, linear, cosine, step");
}

}  // namespace
}  // namespace tandem::optim
