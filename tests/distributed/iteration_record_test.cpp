// What is written down of an iteration: line 33 (docs/ddp.md). Ranks are threads.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <thread>

#include "tandem/core/recorder.h"
#include "tandem/nn/linear.h"
#include "tandem/nn/sequential.h"
#include "tests/distributed/small_models.h"

namespace tandem::distributed {
namespace {

TEST(Line33, an_iteration_is_written_down) {
  run_as_threads(2, [](World& world) {
    core::Generator random(0);
    nn::Sequential net;
    net.add<nn::Linear>(8, 8, random).add<nn::Linear>(8, 4, random);
    DistributedDataParallel ddp(net, group_of(world), {.bucket_cap_mb = 0});
    for (int i = 1; i <= 2; ++i) {
      autograd::sum(ddp.forward(Tensor::full({2, 8}, 1))).backward();
      const IterationRecord& record = ddp.reducer().last_iteration();
      EXPECT_EQ(record.iteration, i);
      EXPECT_GT(record.forward.begin_ns, 0);
      EXPECT_LE(record.forward.begin_ns, record.forward.end_ns);
      EXPECT_LE(record.forward.end_ns, record.backward.begin_ns);
      EXPECT_LE(record.backward.begin_ns, record.backward.end_ns);
      EXPECT_LE(record.backward.end_ns, record.end_ns);
      ASSERT_EQ(record.buckets.size(), 4u);
      std::int64_t bytes = 0;
      for (const BucketRecord& bucket : record.buckets) {
        bytes += bucket.bytes;
        EXPECT_LE(record.backward.begin_ns, bucket.ready_ns);
        EXPECT_LE(bucket.ready_ns, bucket.launched_ns);
        EXPECT_LE(bucket.launched_ns, bucket.on_the_wire.begin_ns);
        EXPECT_LE(bucket.on_the_wire.begin_ns, bucket.on_the_wire.end_ns);
      }
      EXPECT_EQ(bytes, 4 * (64 + 16 + 32 + 16));  // a bias of 8 or 4 floats takes 64 bytes
      ASSERT_EQ(record.ready_ns.size(), 4u);
      for (const std::int64_t ready : record.ready_ns) EXPECT_GE(ready, record.backward.begin_ns);
      EXPECT_EQ(record.bytes_sent, bytes);  // two ranks: half of it out, and the other half back
      EXPECT_EQ(record.bytes_copied, 0);
      EXPECT_LE(record.overlapped_ms(), record.communication_ms() + 1e-9);
    }
    world.leave();
  });
}

constexpr std::chrono::milliseconds kPause{4};
constexpr double kPauseMs = 4;

Variable paused_loss(DistributedDataParallel& ddp, const Vectors& model) {
  return ddp.forward([&] {
    std::this_thread::sleep_for(kPause);
    return loss_of(model.all[0], 1);
  });
}

TEST(Line33, a_forward_that_is_not_ddps_own_is_measured_too) {
  run_as_threads(2, [](World& world) {
    Vectors model({{"a", {4}}}, 0);
    DistributedDataParallel ddp(model, group_of(world));
    const Variable loss = paused_loss(ddp, model);
    const std::int64_t end_ns = core::recorder::now_ns();
    autograd::backward(loss, {.gradient = {}, .retain_graph = true});
    const IterationRecord first = ddp.reducer().last_iteration();
    EXPECT_GE(first.forward.ms(), kPauseMs);
    EXPECT_LE(first.forward.end_ns, end_ns);
    loss.backward();  // the same graph again: this backward had no forward of its own
    EXPECT_EQ(ddp.reducer().last_iteration().forward.ms(), 0);
    world.leave();
  });
}

TEST(Line33, passes_that_send_nothing_are_counted_by_the_next_that_does) {
  run_as_threads(2, [](World& world) {
    Vectors model({{"a", {4}}}, 0);
    DistributedDataParallel ddp(model, group_of(world));
    for (int i = 0; i < 2; ++i) {
      for (int pass = 0; pass < 3; ++pass) {
        const auto local_only = ddp.no_sync();
        paused_loss(ddp, model).backward();
      }
      paused_loss(ddp, model).backward();
      const IterationRecord& record = ddp.reducer().last_iteration();
      EXPECT_EQ(record.local.count, 3);
      EXPECT_GE(record.local.forward_ns, 3e6 * kPauseMs);
      EXPECT_GT(record.local.backward_ns, 0);
      EXPECT_GE(record.forward.ms(), kPauseMs);
    }
    paused_loss(ddp, model).backward();
    EXPECT_EQ(ddp.reducer().last_iteration().local.count, 0);
    EXPECT_EQ(ddp.reducer().last_iteration().local.forward_ns, 0);
    world.leave();
  });
}

TEST(Line33, buckets_are_told_as_they_were_in_that_iteration) {
  run_as_threads(2, [](World& world) {
    Vectors model({{"a", {4}}, {"b", {4}}}, 0);
    DistributedDataParallel ddp(model, group_of(world), {.bucket_cap_mb = 0, .bucket_order = BucketOrder::observed});
    const auto backward = [&] {
      const Variable b = loss_of(model.all[1], 1), a = loss_of(model.all[0], 1);  // backward meets the newest first
      (a + b).backward();
      return ddp.reducer().last_iteration().plan->members();
    };
    using Members = std::vector<std::vector<std::size_t>>;
    EXPECT_EQ(backward(), (Members{{1}, {0}}));
    EXPECT_EQ(backward(), (Members{{0}, {1}}));
    world.leave();
  });
}

TEST(Line33, one_rank_communicates_nothing) {
  for (const bool overlap : {true, false})
    run_as_threads(1, [&](World& world) {
      Vectors model({{"a", {4}}, {"b", {100000}}}, 0);
      DistributedDataParallel ddp(model, group_of(world), {.bucket_cap_mb = 0, .overlap = overlap});
      (loss_of(model.all[1], 1) + loss_of(model.all[0], 1)).backward();
      const IterationRecord& record = ddp.reducer().last_iteration();
      EXPECT_EQ(record.buckets.size(), 2u);
      EXPECT_EQ(record.bytes_sent, 0);
      EXPECT_EQ(record.communication_ms(), 0);
      EXPECT_EQ(record.first_launch_to_last_completion_ms(), 0);
      EXPECT_EQ(record.overlapped_ms(), 0);
      EXPECT_EQ(record.exposed_ms(), 0);
      world.leave();
    });
}

TEST(IterationRecord, times_are_of_merged_intervals) {
  IterationRecord record;
  constexpr std::int64_t kMs = 1000000;
  record.backward = {.begin_ns = 0, .end_ns = 10 * kMs};
  record.end_ns = 14 * kMs;
  record.buckets.resize(3);
  record.buckets[0].on_the_wire = {2 * kMs, 6 * kMs};
  record.buckets[1].on_the_wire = {5 * kMs, 8 * kMs};
  record.buckets[2].on_the_wire = {9 * kMs, 14 * kMs};
  EXPECT_DOUBLE_EQ(record.communication_ms(), 11);
  record.buckets[0].launched_ns = record.buckets[1].launched_ns = record.buckets[2].launched_ns = kMs;
  EXPECT_DOUBLE_EQ(record.first_launch_to_last_completion_ms(), 13);
  EXPECT_DOUBLE_EQ(record.overlapped_ms(), 7);
  EXPECT_DOUBLE_EQ(record.exposed_ms(), 4);
}

}  // namespace
}  // namespace tandem::distributed
