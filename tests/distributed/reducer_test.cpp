// The reducer at its limits, in the manner of PyTorch's own reducer tests.
#include "tandem/distributed/reducer.h"

#include <gtest/gtest.h>

#include "tandem/distributed/bucket_memory.h"
#include "tests/distributed/small_models.h"
#include "tests/errors.h"

namespace tandem::distributed {
namespace {

std::vector<ReducedParameter> parameters_of(const Vectors& model) {
  std::vector<ReducedParameter> all;
  for (const auto& [name, variable] : model.named_parameters()) all.push_back({name, variable});
  return all;
}

TEST(Reducer, needs_parameters) {
  run_as_threads(1, [](World& world) {
    TANDEM_EXPECT_ERROR(Reducer({}, group_of(world), {}), "nothing to reduce");
    world.leave();
  });
}

TEST(Reducer, ten_thousand_parameters_of_one_element) {
  constexpr std::size_t kCount = 10000;
  for (const double cap_mb : {0.01, 25.0}) {
    run_as_threads(3, [&](World& world) {
      std::vector<std::pair<std::string, core::Shape>> named;
      for (std::size_t i = 0; i < kCount; ++i) named.emplace_back(fmt::format("w{}", i), core::Shape{});
      Vectors model(named, 0);
      DataParallelOptions options;
      options.bucket_cap_mb = cap_mb;
      DistributedDataParallel ddp(model, group_of(world), options);
      std::vector<Variable> parts;
      for (std::size_t i = 0; i < kCount; ++i)
        parts.push_back(model.all[i] * static_cast<double>((world.rank() + 1) * i));
      while (parts.size() > 1) {  // a tree of sums
        std::vector<Variable> sums;
        for (std::size_t i = 0; i + 1 < parts.size(); i += 2) sums.push_back(parts[i] + parts[i + 1]);
        if (parts.size() % 2 == 1) sums.push_back(parts.back());
        parts = std::move(sums);
      }
      parts.front().backward();
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < kCount; ++i)
        wrong += std::abs(model.all[i].grad().item() - 2.0 * static_cast<double>(i)) > 1e-9;
      EXPECT_EQ(wrong, 0u);
      world.leave();
    });
  }
}

TEST(Reducer, a_parameter_beyond_the_cap_has_a_bucket_of_its_own_and_stays_whole) {
  run_as_threads(2, [](World& world) {
    Vectors model({{"small", {8}}, {"large", {300000}}, {"last", {8}}}, 0);
    DataParallelOptions options;
    options.bucket_cap_mb = 1;
    DistributedDataParallel ddp(model, group_of(world), options);
    const BucketPlan& plan = ddp.reducer().plan();
    ASSERT_EQ(plan.size(), 2u);
    EXPECT_EQ(plan[0].members, (std::vector<std::size_t>{2, 1}));
    (loss_of(model.all[0], 1) + loss_of(model.all[1], world.rank()) + loss_of(model.all[2], 3)).backward();
    EXPECT_EQ(values(model.all[1].grad()), filled(300000, 0.5));
    world.leave();
  });
}

TEST(Reducer, dtypes_do_not_share_buckets) {
  run_as_threads(2, [](World& world) {
    class Mixed final : public nn::Module {
     public:
      Mixed() {
        a = register_parameter("a", Tensor::zeros({4}, {.dtype = DType::float32}));
        b = register_parameter("b", Tensor::zeros({4}, {.dtype = DType::float64}));
        c = register_parameter("c", Tensor::zeros({4}, {.dtype = DType::bfloat16}));
        d = register_parameter("d", Tensor::zeros({4}, {.dtype = DType::float32}));
      }
      Variable a, b, c, d;
    } model;
    DistributedDataParallel ddp(model, group_of(world));
    EXPECT_EQ(ddp.reducer().plan().size(), 3u);
    Variable loss;
    for (const Variable& parameter : {model.a, model.b, model.c, model.d}) {
      const Variable part = autograd::sum(autograd::cast(parameter, DType::float64)) * (2.0 * world.rank());
      loss = loss.defined() ? loss + part : part;
    }
    loss.backward();
    for (const Variable& parameter : {model.a, model.b, model.c, model.d})
      EXPECT_EQ(values(parameter.grad()), filled(4, 1));
    world.leave();
  });
}

TEST(Reducer, outlives_no_registration) {
  run_as_threads(1, [](World& world) {
    Vectors model({{"w", {4}}}, 0);
    {
      const Reducer reducer(parameters_of(model), group_of(world), {});
      loss_of(model.all[0], 1).backward();
      EXPECT_EQ(reducer.iterations(), 1);
    }
    loss_of(model.all[0], 1).backward();  // nobody is told, and the gradient is still there
    EXPECT_EQ(values(model.all[0].grad()), filled(4, 2));
    model.all[0].set_requires_grad(false);
    world.leave();
  });
}

TEST(Reducer, counts_beyond_two_gibibytes) {
  const Tensor one = Tensor::zeros({1});
  const std::int64_t large = (std::int64_t{1} << 31) + 5;  // elements, of no memory
  const std::vector<ReducedParameter> parameters{{"", Variable(one.expand({large}), true)},
                                                 {"", Variable(one.expand({3, large}), true)},
                                                 {"", Variable(one, true)}};
  const std::int64_t padded = (std::int64_t{1} << 31) + 16, three = (3 * large + 15) / 16 * 16;
  const BucketPlan plan(items_of(parameters), {{0, 1, 2}});
  EXPECT_EQ(plan[0].offsets, (std::vector<std::int64_t>{0, padded, padded + three}));
  EXPECT_EQ(plan[0].numel, padded + three + 16);
  constexpr std::size_t kHuge = std::size_t{1} << 60;
  EXPECT_EQ(initial_plan(parameters, {.cap = kHuge, .first = kHuge}).size(), 1u);
  EXPECT_EQ(initial_plan(parameters, {.cap = std::size_t{20} << 30, .first = 4}).size(), 3u);
}

// Takes 10 GB and half a minute: --gtest_also_run_disabled_tests --gtest_filter=Reducer.DISABLED_*
TEST(Reducer, DISABLED_a_bucket_beyond_two_gibibytes_for_real) {
  run_as_threads(2, [](World& world) {
    constexpr std::int64_t kElements = (std::int64_t{1} << 29) + 1000;  // of 4 bytes
    Vectors model({{"w", {kElements}}}, 0, DType::float32);
    DataParallelOptions options;
    options.bucket_cap_mb = 1e6;
    DistributedDataParallel ddp(model, group_of(world), options);
    autograd::sum(model.all[0] * (1.0 + world.rank())).backward();
    const auto gradient = model.all[0].grad().to_vector<float>();
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < kElements; ++i) wrong += gradient[static_cast<std::size_t>(i)] != 1.5f;
    EXPECT_EQ(wrong, 0);
    world.leave();
  });
}

}  // namespace
}  // namespace tandem::distributed
