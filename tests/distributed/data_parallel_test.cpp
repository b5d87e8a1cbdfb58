// What DistributedDataParallel promises, by the number of the line (docs/distributed.md). Ranks are threads.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <mutex>
#include <set>

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

TEST(Line22, no_sync_sends_nothing_nests_and_ends_with_its_scope) {
  run_as_threads(2, [](World& world) {
    Vectors model({{"w", {2}}}, 0);
    DistributedDataParallel ddp(model, group_of(world));
    const double mine = world.rank() + 1;
    try {
      const auto outer = ddp.no_sync();
      {
        auto inner = ddp.no_sync();
        const auto moved = std::move(inner);
        loss_of(model.all[0], mine).backward();
      }
      loss_of(model.all[0], mine).backward();
      EXPECT_EQ(values(model.all[0].grad()), filled(2, 2 * mine));
      EXPECT_EQ(ddp.reducer().iterations(), 0);
      throw std::runtime_error("user's");
    } catch (const std::runtime_error&) {
    }
    loss_of(model.all[0], mine).backward();
    EXPECT_EQ(values(model.all[0].grad()), filled(2, 3 * 1.5));
    EXPECT_EQ(ddp.reducer().iterations(), 1);
    world.leave();
  });
}

TEST(Line23, the_flag_is_read_when_backward_begins) {
  run_as_threads(2, [](World& world) {
    Vectors model({{"w", {2}}}, 0);
    DistributedDataParallel ddp(model, group_of(world));
    const double mine = world.rank() + 1;
    const Variable outside = loss_of(model.all[0], mine);
    Variable inside;
    {
      const auto local_only = ddp.no_sync();
      inside = loss_of(model.all[0], mine);
      outside.backward();  // its forward ran outside, and it is local all the same
      EXPECT_EQ(values(model.all[0].grad()), filled(2, mine));
    }
    inside.backward();
    EXPECT_EQ(values(model.all[0].grad()), filled(2, 2 * 1.5));
    world.leave();
  });
}

TEST(Line24, the_next_synced_backward_reduces_all_that_was_accumulated) {
  run_as_threads(3, [](World& world) {
    Vectors model({{"w", {2}}, {"v", {2}}}, 0);
    DistributedDataParallel ddp(model, group_of(world));
    const auto backward = [&](double factor) {
      (loss_of(model.all[0], factor) + loss_of(model.all[1], factor)).backward();
    };
    for (int i = 0; i < world.rank(); ++i) {  // ranks may differ in their number of local ones
      const auto local_only = ddp.no_sync();
      backward(10);
    }
    backward(1);
    EXPECT_EQ(values(model.all[0].grad()), filled(2, 11));  // ((1) + (1 + 10) + (1 + 20)) / 3
    EXPECT_EQ(ddp.reducer().last_iteration().buckets.size(), 1u);
    world.leave();
  });
}

struct Normed : nn::Module {
  Normed() : norm(2) { register_module("norm", norm); }
  Variable forward(const Variable& x) override { return norm.forward(x); }
  nn::BatchNorm2d norm;

  Values statistics(const std::string& name) {
    for (const auto& buffer : named_buffers())
      if (buffer.name == name) return values(*buffer.tensor);
    return {};
  }
};

TEST(Line26, statistics_are_the_first_ranks_in_the_first_training_forward_after_a_synced_backward) {
  run_as_threads(2, [](World& world) {
    Normed model;
    DistributedDataParallel ddp(model, group_of(world));
    const Variable input(Tensor::full({4, 2, 1, 1}, 1 + world.rank()));
    const auto mean_now = [&] { return model.statistics("norm.running_mean")[0]; };
    const double mine = 0.1 * (1 + world.rank());

    Variable output = ddp.forward(input);
    EXPECT_NEAR(mean_now(), mine, 1e-6);  // no synced backward yet: each its own
    ddp.forward(input);
    EXPECT_NEAR(mean_now(), mine * 1.9, 1e-6);
    EXPECT_EQ(model.statistics("norm.num_batches_tracked")[0], 2);
    autograd::sum(output).backward();

    model.eval();
    ddp.forward(input);
    EXPECT_NEAR(mean_now(), mine * 1.9, 1e-6);  // not in evaluation
    model.train();
    ddp.forward(input);  // rank 0's, then moved by this rank's batch
    EXPECT_NEAR(mean_now(), 0.19 * 0.9 + mine, 1e-6);
    EXPECT_EQ(model.statistics("norm.num_batches_tracked")[0], 3);
    ddp.forward(input);
    EXPECT_NEAR(mean_now(), (0.19 * 0.9 + mine) * 0.9 + mine, 1e-6);  // only in the first

    ddp.sync_buffers();
    EXPECT_NEAR(mean_now(), (0.19 * 0.9 + 0.1) * 0.9 + 0.1, 1e-6);  // on demand
    world.leave();
  });
}

TEST(Line26, a_broadcast_does_not_overwrite_what_an_earlier_forward_saved) {
  run_as_threads(2, [](World& world) {
    Normed model;
    DistributedDataParallel ddp(model, group_of(world));
    Tensor x = Tensor::arange(16, DType::float32).reshape({8, 2, 1, 1});
    autograd::sum(ddp.forward(Variable(x))).backward();
    model.eval();  // saves the running statistics
    const Variable earlier = autograd::sum(model.forward(Variable(x, true)));
    ddp.sync_buffers();
    const auto local_only = ddp.no_sync();
    EXPECT_NO_THROW(earlier.backward());
    world.leave();
  });
}

TEST(Line26, integers_stay_exact) {
  class Counter final : public nn::Module {
   public:
    explicit Counter(std::int64_t count) : tensor(Tensor::from(std::vector{count})) {
      register_parameter("w", Tensor::zeros({1}));
      register_buffer("count", tensor);
    }
    Tensor tensor;
  };
  run_as_threads(2, [](World& world) {
    constexpr std::int64_t kLarge = (std::int64_t{1} << 60) + 1;  // no double has it
    Counter model(world.rank() == 0 ? kLarge : 0);
    DistributedDataParallel ddp(model, group_of(world));
    EXPECT_EQ(model.tensor.to_vector<std::int64_t>()[0], kLarge);
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
