// What DistributedDataParallel promises of its construction: lines 1 to 4 (docs/ddp.md). Ranks are threads.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tandem/nn/batch_norm2d.h"
#include "tandem/nn/linear.h"
#include "tandem/nn/sequential.h"
#include "tests/distributed/small_models.h"
#include "tests/errors.h"

namespace tandem::distributed {
namespace {

TEST(Line1, parameters_are_taken_once_in_module_order) {
  class Tied final : public nn::Module {
   public:
    explicit Tied(core::Generator& random) : a_(4, 4, random, {.bias = false}), b_(4, 2, random) {
      register_module("a", a_);
      register_module("again", a_);
      register_module("b", b_);
    }
    nn::Linear a_, b_;
  };
  run_as_threads(1, [](World& world) {
    core::Generator random(0);
    Tied model(random);
    DistributedDataParallel ddp(model, group_of(world));
    std::vector<std::string> names;
    for (const auto& parameter : ddp.parameters()) names.push_back(parameter.name);
    EXPECT_EQ(names, (std::vector<std::string>{"a.weight", "b.weight", "b.bias"}));
    world.leave();
  });
}

TEST(Line1, no_parameter_and_another_owner_are_errors) {
  run_as_threads(2, [](World& world) {
    const auto group = group_of(world);
    Vectors none({}, 0), model({{"w", {3}}}, 0);
    TANDEM_EXPECT_ERROR(DistributedDataParallel(none, group), "no parameter of the module requires a gradient");
    DistributedDataParallel ddp(model, group);
    TANDEM_EXPECT_ERROR(DistributedDataParallel(model, group), "w belongs to another reducer already");
    loss_of(model.all[0], world.rank()).backward();
    EXPECT_EQ(values(model.all[0].grad()), filled(3, 0.5));
    world.leave();
  });
}

TEST(Line2, ranks_that_differ_are_told_where) {
  using Named = std::vector<std::pair<std::string, core::Shape>>;
  const Named same{{"a", {2}}, {"b", {3}}};
  const auto expect = [&](const Named& other, DType dtype, DataParallelOptions options, const std::string& first,
                          const std::string& second) {
    run_as_threads(3, [&](World& world) {
      const auto group = group_of(world);
      const bool is_odd = world.rank() == 2;
      Vectors model(is_odd ? other : same, 0, is_odd ? dtype : DType::float64);
      const std::string message =
          testing::error_of([&] { DistributedDataParallel(model, group, is_odd ? options : DataParallelOptions{}); });
      testing::expect_contains(message, first);
      testing::expect_contains(message, second);
      world.leave();
    });
  };
  expect({{"a", {2}}, {"b", {4}}}, DType::float64, {}, "rank 0 has parameter b: float64 [3]",
         "rank 2 has parameter b: float64 [4]");
  expect({{"a", {2}}, {"c", {3}}}, DType::float64, {}, "rank 0 has parameter b", "rank 2 has parameter c");
  expect({{"a", {2}}}, DType::float64, {}, "rank 0 has parameter b", "rank 2 has bucket_cap_mb");
  expect(same, DType::float32, {}, "rank 0 has parameter a: float64", "rank 2 has parameter a: float32");
  expect(same, DType::float64, {.bucket_cap_mb = 3}, "bucket_cap_mb 25", "bucket_cap_mb 3");
}

TEST(Line2, requires_grad_and_buffers_count) {
  run_as_threads(2, [](World& world) {
    const auto group = group_of(world);
    Vectors model({{"a", {2}}, {"b", {3}}}, 0);
    if (world.rank() == 1) model.all[0].set_requires_grad(false);
    TANDEM_EXPECT_ERROR(DistributedDataParallel(model, group), "parameter a: float64 [2], requires no gradient");
    nn::Sequential net;
    net.add<nn::BatchNorm2d>(world.rank() == 1 ? 3 : 2);
    TANDEM_EXPECT_ERROR(DistributedDataParallel(net, group), "rank 1 has parameter 0.weight: float32 [3]");
    world.leave();
  });
}

TEST(Line3, all_ranks_begin_with_the_first_ones_parameters_and_buffers) {
  run_as_threads(3, [](World& world) {
    Vectors model({{"w", {5}}}, 10.0 * world.rank());
    const Tensor memory = model.all[0].data();
    DistributedDataParallel ddp(model, group_of(world));
    EXPECT_EQ(values(model.all[0].data()), filled(5, 0));
    EXPECT_TRUE(model.all[0].data().is_same_view(memory));  // in place: an optimizer may hold it
    world.leave();
  });
}

TEST(Line3, two_in_one_loss_do_not_mix_whatever_comes_first_on_a_rank) {
  run_as_threads(2, [](World& world) {
    const auto group = group_of(world);
    Vectors a({{"w", {1000}}}, 0), b({{"w", {1000}}}, 0);
    DistributedDataParallel ddp_a(a, group), ddp_b(b, group);
    const auto part = [&](Vectors& model, double factor) { return loss_of(model.all[0], factor * (world.rank() + 1)); };
    // Backward runs the newest node first, so the two ranks launch in opposite orders.
    const Variable loss = world.rank() == 0 ? part(a, 1) + part(b, 10) : part(b, 10) + part(a, 1);
    loss.backward();
    EXPECT_EQ(values(a.all[0].grad()), filled(1000, 1.5));
    EXPECT_EQ(values(b.all[0].grad()), filled(1000, 15));
    world.leave();
  });
}

TEST(Line4, a_rank_that_does_not_come_is_named) {
  std::atomic<bool> is_over{false};
  const auto run = [&] {
    run_as_threads(
        2,
        [&](World& world) {
          Vectors model({{"w", {8}}}, 0);
          DistributedDataParallel ddp(model, group_of(world));
          loss_of(model.all[0], 1).backward();
          if (world.rank() == 1) {
            while (!is_over) std::this_thread::sleep_for(Milliseconds(10));
            return;
          }
          try {
            loss_of(model.all[0], 1).backward();
          } catch (...) {
            is_over = true;
            throw;
          }
        },
        Milliseconds(1000));
  };
  const std::string message = testing::error_of(run);
  testing::expect_contains(message, "rank 1 never began");
  testing::expect_contains(message, "bucket 0 (w) of synced backward 2");
}

}  // namespace
}  // namespace tandem::distributed
