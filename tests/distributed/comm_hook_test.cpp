// Communication hooks: what travels, how exact it is, and what does not fit.
#include "tandem/distributed/comm_hook.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tandem/core/ops/random_fill.h"
#include "tests/distributed/small_models.h"
#include "tests/errors.h"

namespace tandem::distributed {
namespace {

DataParallelOptions with_hook(const std::string& name) {
  DataParallelOptions options;
  options.comm_hook = [name] { return make_comm_hook(name); };
  return options;
}

TEST(CommHook, narrow_types_send_half_the_bytes_and_round_once) {
  for (const auto& [name, epsilon] : {std::pair{"bf16", 1.0 / 256}, {"fp16", 1.0 / 2048}}) {
    run_as_threads(3, [&, name = name, epsilon = epsilon](World& world) {
      Vectors model({{"w", {4096}}}, 0, DType::float32);
      Vectors twin({{"w", {4096}}}, 0, DType::float32);
      const auto group = group_of(world);
      DistributedDataParallel narrow(model, group, with_hook(name)), wide(twin, group, with_hook("none"));
      Tensor factors = Tensor::empty({4096});
      core::fill_uniform(factors, -1, 1,
                         core::RandomContext{.seed = 2}.stream(static_cast<std::uint32_t>(world.rank())));
      for (int i = 0; i < 2; ++i) {
        model.zero_grad();
        twin.zero_grad();
        autograd::sum(model.all[0] * Variable(factors)).backward();
        autograd::sum(twin.all[0] * Variable(factors)).backward();
        const Values a = values(model.all[0].grad()), b = values(twin.all[0].grad());
        double worst = 0;
        for (std::size_t j = 0; j < a.size(); ++j) worst = std::max(worst, std::abs(a[j] - b[j]));
        EXPECT_LE(worst, 3 * epsilon);  // of shares below 1/3, their sums below 1
        EXPECT_GT(worst, 0);
        EXPECT_EQ(2 * narrow.reducer().last_iteration().bytes_sent, wide.reducer().last_iteration().bytes_sent);
      }
      world.leave();
    });
  }
}

TEST(CommHook, division_comes_before_the_cast) {
  run_as_threads(2, [](World& world) {
    Vectors model({{"w", {4}}}, 0, DType::float32);
    DistributedDataParallel ddp(model, group_of(world), with_hook("fp16"));
    loss_of(model.all[0], 60000).backward();  // twice that is no float16
    EXPECT_EQ(values(model.all[0].grad()), filled(4, 60000));
    world.leave();
  });
}

TEST(CommHook, a_gradient_that_is_too_large_is_named) {
  const auto run = [] {
    run_as_threads(2, [](World& world) {
      Vectors model({{"w", {4}}}, 0, DType::float32);
      DistributedDataParallel ddp(model, group_of(world), with_hook("fp16"));
      TANDEM_EXPECT_ERROR(
          loss_of(model.all[0], 200000).backward(),
          "bucket 0 (w) of synced backward 1: a gradient of 200000, divided by 2 ranks, is too large for "
          "float16");
      // On all ranks alike, and before anything was sent: DDP stays usable.
      model.zero_grad();
      loss_of(model.all[0], 2).backward();
      EXPECT_EQ(values(model.all[0].grad()), filled(4, 2));
      // Each share is a float16, and their sum is not.
      model.zero_grad();
      TANDEM_EXPECT_ERROR(loss_of(model.all[0], 100000).backward(), "an averaged gradient is too large for float16");
    });
  };
  TANDEM_EXPECT_ERROR(run(), "too large for float16");
}

TEST(CommHook, names_are_those_of_the_flag_and_ranks_must_agree) {
  for (const char* name : {"none", "bf16", "fp16"}) EXPECT_EQ(make_comm_hook(name)->name(), name);
  TANDEM_EXPECT_ERROR(make_comm_hook("fp8"), "there are none, bf16 and fp16");
  run_as_threads(2, [](World& world) {
    Vectors model({{"w", {4}}}, 0, DType::float32);
    TANDEM_EXPECT_ERROR(DistributedDataParallel(model, group_of(world), with_hook(world.rank() == 0 ? "none" : "bf16")),
                        "comm_hook bf16");
    world.leave();
  });
}

TEST(CommHook, a_users_own_sees_each_bucket_once_and_owns_the_division) {
  struct Calls {
    std::vector<std::size_t> launched, completed;
  };
  class SumHook final : public CommHook {
   public:
    explicit SumHook(Calls& calls) : calls_(calls) {}
    WorkPtr launch(GradientBucket bucket, ProcessGroup& group) override {
      calls_.launched.push_back(bucket.index);
      return group.all_reduce(bucket.flat, {.label = bucket.label});  // a sum, no mean
    }
    void complete(GradientBucket bucket) override { calls_.completed.push_back(bucket.index); }
    std::string name() const override { return "sum"; }

   private:
    Calls& calls_;
  };
  run_as_threads(3, [](World& world) {
    Vectors model({{"a", {4}}, {"b", {4}}}, 0);
    Calls calls;
    DataParallelOptions options;
    options.bucket_cap_mb = 0;
    options.comm_hook = [&] { return std::make_unique<SumHook>(calls); };
    DistributedDataParallel ddp(model, group_of(world), options);
    (loss_of(model.all[0], 1) + loss_of(model.all[1], 2)).backward();
    EXPECT_EQ(values(model.all[0].grad()), filled(4, 3));
    EXPECT_EQ(values(model.all[1].grad()), filled(4, 6));
    EXPECT_EQ(calls.launched, (std::vector<std::size_t>{0, 1}));
    EXPECT_EQ(calls.completed, (std::vector<std::size_t>{0, 1}));
    world.leave();
  });
}

// What a hook keeps from launch to completion is by bucket: shared by two models, the one would get the other's
// average.
TEST(CommHook, two_models_in_one_loss_with_the_same_options_have_a_hook_each) {
  run_as_threads(2, [](World& world) {
    Vectors a({{"w", {4}}}, 0, DType::float32), b({{"w", {4}}}, 0, DType::float32);
    const DataParallelOptions options = with_hook("bf16");
    const auto group = group_of(world);
    DistributedDataParallel first(a, group, options), second(b, group, options);
    (loss_of(a.all[0], 1 + world.rank()) + loss_of(b.all[0], 10 * (1 + world.rank()))).backward();
    EXPECT_EQ(values(a.all[0].grad()), filled(4, 1.5));
    EXPECT_EQ(values(b.all[0].grad()), filled(4, 15));
    world.leave();
  });
}

TEST(CommHook, none_that_is_made_is_an_error) {
  run_as_threads(1, [](World& world) {
    Vectors model({{"w", {4}}}, 0);
    const DataParallelOptions options{.comm_hook = [] { return std::unique_ptr<CommHook>(); }};
    TANDEM_EXPECT_ERROR(DistributedDataParallel(model, group_of(world), options), "comm_hook made no hook");
    world.leave();
  });
}

}  // namespace
}  // namespace tandem::distributed
