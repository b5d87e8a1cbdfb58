// What DistributedDataParallel promises of gradients and of every backward: lines 8 to 13 and 29 (docs/ddp.md). Ranks
// are threads.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tandem/nn/linear.h"
#include "tandem/nn/sequential.h"
#include "tests/distributed/small_models.h"

namespace tandem::distributed {
namespace {

TEST(Line8, gradients_may_be_none_zeroed_or_replaced_mixed_as_one_likes) {
  run_as_threads(3, [](World& world) {
    Vectors model({{"kept", {3}}, {"none", {3}}, {"zeroed", {3}}, {"replaced", {3}}, {"last", {3}}}, 0);
    DistributedDataParallel ddp(model, group_of(world), {.bucket_cap_mb = 64e-6});
    const auto backward = [&] {
      Variable loss = loss_of(model.all[0], 1);
      for (std::size_t i = 1; i < model.all.size(); ++i) loss = loss + loss_of(model.all[i], world.rank());
      loss.backward();
    };
    backward();
    model.all[1].set_grad({});
    const_cast<Tensor&>(model.all[2].grad()).fill(0);
    model.all[3].set_grad(Tensor::full({3}, 100.0 * world.rank(), {.dtype = DType::float64}));
    backward();
    EXPECT_EQ(values(model.all[0].grad()), filled(3, 2));
    EXPECT_EQ(values(model.all[1].grad()), filled(3, 1));
    EXPECT_EQ(values(model.all[2].grad()), filled(3, 1));
    EXPECT_EQ(values(model.all[3].grad()), filled(3, 101));
    EXPECT_EQ(values(model.all[4].grad()), filled(3, 2));
    // The replaced one, taken over by value; and a product's gradient for `none`, which no kernel writes into place.
    EXPECT_EQ(ddp.reducer().last_iteration().bytes_copied, 24 + 24);
    world.leave();
  });
}

TEST(Line8, a_gradient_that_a_hook_takes_away_or_replaces_is_sent_as_the_hook_left_it) {
  run_as_threads(2, [](World& world) {
    Vectors model({{"gone", {3}}, {"other", {3}}}, 0);
    DistributedDataParallel ddp(model, group_of(world));
    const auto backward = [&] { (loss_of(model.all[0], 5) + loss_of(model.all[1], 1)).backward(); };
    backward();
    // Registered after DDP's own, and still before it in turn (line 9).
    const auto gone = model.all[0].register_post_accumulate_grad_hook([&](const Variable& leaf) {
      if (world.rank() == 0) Variable(leaf).set_grad({});
    });
    const auto other = model.all[1].register_post_accumulate_grad_hook(
        [](const Variable& leaf) { Variable(leaf).set_grad(Tensor::full({3}, 8, {.dtype = DType::float64})); });
    model.zero_grad();
    backward();
    EXPECT_EQ(values(model.all[0].grad()), filled(3, 2.5));  // stale bytes of rank 0 would make it 5
    EXPECT_EQ(values(model.all[1].grad()), filled(3, 8));
    world.leave();
  });
}

TEST(Line8, gradients_of_any_strides_share_a_bucket_and_padding_stays_zero) {
  run_as_threads(2, [](World& world) {
    class Strided final : public nn::Module {
     public:
      Strided() {
        a = register_parameter("a", Tensor::zeros({3, 5, 3, 3}, {.format = core::MemoryFormat::channels_last}));
        b = register_parameter("b", Tensor::zeros({7, 3}).transpose(0, 1));
      }
      Variable a, b;
    } model;
    DistributedDataParallel ddp(model, group_of(world));
    const Tensor weight_a = Tensor::arange(135, DType::float32).reshape({3, 5, 3, 3});
    const Tensor weight_b = Tensor::arange(21, DType::float32).reshape({3, 7});
    const double factor = world.rank() == 0 ? 1 : 3;
    (autograd::sum(model.a * Variable(weight_a) * factor) + autograd::sum(model.b * Variable(weight_b) * factor))
        .backward();
    for (int i = 0; i < 135; ++i) EXPECT_EQ(values(model.a.grad())[static_cast<std::size_t>(i)], 2 * i);
    for (int i = 0; i < 21; ++i) EXPECT_EQ(values(model.b.grad())[static_cast<std::size_t>(i)], 2 * i);
    EXPECT_TRUE(model.a.grad().is_channels_last());
    world.leave();
  });
}

TEST(Line9, buckets_are_launched_in_index_order_whatever_order_gradients_arrive_in) {
  run_as_threads(3, [](World& world) {
    constexpr int kCount = 6;
    std::vector<std::pair<std::string, core::Shape>> named;
    for (int i = 0; i < kCount; ++i) named.push_back({fmt::format("w{}", i), {4}});
    Vectors model(named, 0);
    DistributedDataParallel ddp(model, group_of(world), {.bucket_cap_mb = 0});
    Variable loss;
    for (int i = 0; i < kCount; ++i) {  // each rank in another order
      const auto index = static_cast<std::size_t>(world.rank() == 1 ? kCount - 1 - i : (i * 5 + world.rank()) % kCount);
      const Variable part = loss_of(model.all[index], static_cast<double>(index) * (world.rank() + 1));
      loss = loss.defined() ? loss + part : part;
    }
    loss.backward();
    for (std::size_t i = 0; i < kCount; ++i)
      EXPECT_EQ(values(model.all[i].grad()), filled(4, 2.0 * static_cast<double>(i)));
    const IterationRecord& record = ddp.reducer().last_iteration();
    for (std::size_t b = 1; b < record.buckets.size(); ++b) {
      EXPECT_GE(record.buckets[b].launched_ns, record.buckets[b - 1].launched_ns);
      EXPECT_GE(record.buckets[b].on_the_wire.begin_ns, record.buckets[b - 1].on_the_wire.begin_ns);
    }
    world.leave();
  });
}

TEST(Line10, division_comes_before_the_sum) {
  run_as_threads(2, [](World& world) {
    Vectors model({{"w", {4}}}, 0, DType::float32);
    DistributedDataParallel ddp(model, group_of(world));
    loss_of(model.all[0], 3e38).backward();  // twice that is not a float
    EXPECT_EQ(model.all[0].grad().to_vector<float>(), std::vector<float>(4, 3e38f));
    world.leave();
  });
}

TEST(Line11, communication_runs_while_backward_computes_and_has_ended_when_it_returns) {
  run_as_threads(2, [](World& world) {
    core::Generator random(0);
    nn::Sequential net;
    for (int i = 0; i < 4; ++i) net.add<nn::Linear>(256, 256, random);
    DistributedDataParallel ddp(net, group_of(world), {.bucket_cap_mb = 0});
    const Tensor input = Tensor::full({64, 256}, 0.1);
    for (int i = 0; i < 3; ++i) autograd::sum(ddp.forward(input)).backward();
    const IterationRecord& record = ddp.reducer().last_iteration();
    EXPECT_LT(record.buckets.front().launched_ns, record.backward.end_ns);
    for (const BucketRecord& bucket : record.buckets) {
      EXPECT_GT(bucket.on_the_wire.end_ns, 0);
      EXPECT_LE(bucket.on_the_wire.end_ns, record.end_ns);
    }
    world.leave();
  });
}

TEST(Line13, every_backward_is_synced_whichever_forward_made_the_graph) {
  run_as_threads(3, [](World& world) {
    core::Generator random(1);
    nn::Linear net(2, 1, random, {.bias = false});
    net.to(DType::float64);
    DistributedDataParallel ddp(net, group_of(world));
    const int size = world.size();
    const auto input = [&](double scale) {
      return Variable(Tensor::full({1, 2}, scale * (world.rank() + 1), {.dtype = DType::float64}));
    };
    const auto average = [&](double scale) { return mean(size, [&](int r) { return scale * (r + 1); }); };
    const auto gradient = [&] { return values(net.weight().grad())[0]; };
    const auto forward = [&](double scale) { return autograd::sum(ddp.forward(input(scale))); };

    const Variable retained = forward(1);  // backward twice on one forward
    retained.backward({.gradient = {}, .retain_graph = true});
    EXPECT_DOUBLE_EQ(gradient(), average(1));
    retained.backward();
    EXPECT_DOUBLE_EQ(gradient(), 2 * average(1));

    net.zero_grad();  // forward, forward, backward, backward
    const Variable first = forward(1), second = forward(10);
    first.backward();
    EXPECT_DOUBLE_EQ(gradient(), average(1));
    second.backward();
    EXPECT_DOUBLE_EQ(gradient(), average(11));

    net.zero_grad();  // two forwards, one backward
    (forward(1) + forward(10)).backward();
    EXPECT_DOUBLE_EQ(gradient(), average(11));

    net.zero_grad();  // past DDP
    autograd::sum(net.forward(input(5))).backward();
    EXPECT_DOUBLE_EQ(gradient(), average(5));
    world.leave();
  });
}

TEST(Line13, a_backward_on_one_rank_alone_is_fine_under_no_sync) {
  run_as_threads(2, [](World& world) {
    Vectors model({{"w", {2}}}, 0);
    DistributedDataParallel ddp(model, group_of(world));
    if (world.rank() == 1) {
      const auto local_only = ddp.no_sync();
      loss_of(model.all[0], 7).backward();
      model.zero_grad();
    }
    loss_of(model.all[0], world.rank()).backward();
    EXPECT_EQ(values(model.all[0].grad()), filled(2, 0.5));
    world.leave();
  });
}

TEST(Line29, empty_and_one_element_parameters) {
  run_as_threads(3, [](World& world) {
    Vectors model({{"empty", {0, 3}}, {"one", {}}, {"two", {2}}}, 0);
    DistributedDataParallel ddp(model, group_of(world));
    Variable loss = loss_of(model.all[0], 1);
    for (std::size_t i = 1; i < 3; ++i) loss = loss + loss_of(model.all[i], world.rank());
    loss.backward();
    EXPECT_EQ(values(model.all[0].grad()), Values{});
    EXPECT_EQ(values(model.all[1].grad()), filled(1, 1));  // by ranks, not by elements
    EXPECT_EQ(values(model.all[2].grad()), filled(2, 1));
    world.leave();
  });
}

}  // namespace
}  // namespace tandem::distributed
