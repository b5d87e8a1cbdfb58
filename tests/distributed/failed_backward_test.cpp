// Backwards that fail on one rank, and models that change: lines 14 and 15 of what DistributedDataParallel promises.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <thread>

#include "tandem/distributed/error.h"
#include "tests/distributed/small_models.h"
#include "tests/errors.h"

namespace tandem::distributed {
namespace {

/// Waits until rank 0's collective has failed for others to tell of it.
void expect_peer_error(const std::function<void()>& action, const std::string& part) {
  try {
    action();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const core::Error& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(Line14, an_exception_before_anything_was_launched_on_all_ranks_leaves_ddp_usable) {
  run_as_threads(3, [](World& world) {
    Vectors model({{"w", {4}}}, 0);
    DistributedDataParallel ddp(model, group_of(world));
    for (int i = 0; i < 2; ++i) {
      {
        const auto hook = model.all[0].register_post_accumulate_grad_hook(
            [](const Variable&) { throw std::runtime_error("user's hook"); });
        EXPECT_THROW(loss_of(model.all[0], 1).backward(), std::runtime_error);
      }
      model.zero_grad();
      loss_of(model.all[0], world.rank()).backward();
      EXPECT_EQ(values(model.all[0].grad()), filled(4, 1));
    }
    EXPECT_EQ(ddp.reducer().iterations(), 2);
    world.leave();
  });
}

TEST(Line14, an_exception_on_one_rank_ends_the_others_who_wait_with_its_cause) {
  const auto run = [] {
    run_as_threads(3, [](World& world) {
      Vectors model({{"w", {4}}}, 0);
      DistributedDataParallel ddp(model, group_of(world));
      loss_of(model.all[0], 1).backward();
      if (world.rank() == 1) {
        const auto hook = model.all[0].register_post_accumulate_grad_hook(
            [](const Variable&) { throw std::runtime_error("user's hook"); });
        EXPECT_THROW(loss_of(model.all[0], 1).backward(), std::runtime_error);
        // The user goes on; the next synced backward must not be added to the others' iteration 2.
        model.zero_grad();
        expect_peer_error([&] { loss_of(model.all[0], 1).backward(); }, "synced backward 2 failed: user's hook");
      } else {
        const auto begin = std::chrono::steady_clock::now();
        expect_peer_error([&] { loss_of(model.all[0], 1).backward(); }, "synced backward 2 failed: user's hook");
        EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
      }
    });
  };
  EXPECT_THROW(run(), core::Error);
}

TEST(Line14, an_exception_after_a_launch_aborts_the_group_on_all_ranks) {
  const auto run = [] {
    run_as_threads(3, [](World& world) {
      Vectors model({{"first", {4}}, {"second", {4}}}, 0);
      DataParallelOptions options;
      options.bucket_cap_mb = 0;
      DistributedDataParallel ddp(model, group_of(world), options);
      const auto backward = [&] {
        const Variable first = loss_of(model.all[0], 1), second = loss_of(model.all[1], 1);  // is met first
        (first + second).backward();
      };
      backward();
      // Of `first`, whose bucket is the second.
      autograd::Registration hook;
      if (world.rank() == 2)
        hook = model.all[0].register_post_accumulate_grad_hook(
            [](const Variable&) { throw std::runtime_error("user's hook"); });
      if (world.rank() == 2) {
        EXPECT_THROW(backward(), std::runtime_error);
        hook.remove();
      } else {
        expect_peer_error(backward, "synced backward 2 failed on rank 2: user's hook (after the gradient of second)");
      }
      expect_peer_error(backward, "synced backward 2 failed on rank 2: user's hook");  // for good
    });
  };
  EXPECT_THROW(run(), core::Error);
}

TEST(Line14, who_ends_with_a_failed_backward_tells_the_others_why) {
  const auto run = [] {
    run_as_threads(3, [](World& world) {
      Vectors model({{"first", {4}}, {"second", {4}}}, 0);
      const auto group = group_of(world);
      const auto one = [&] {
        DistributedDataParallel ddp(model, group);
        autograd::Registration hook;
        if (world.rank() == 1)
          hook = model.all[0].register_post_accumulate_grad_hook(
              [](const Variable&) { throw std::runtime_error("user's hook"); });
        const Variable first = loss_of(model.all[0], 1), second = loss_of(model.all[1], 1);  // is met first
        (first + second).backward();  // rank 1's DDP goes with the exception
      };
      if (world.rank() == 1) {
        EXPECT_THROW(one(), std::runtime_error);
        throw std::runtime_error("the end of rank 1");
      }
      expect_peer_error(one, "user's hook");
    });
  };
  EXPECT_THROW(run(), std::exception);
}

TEST(Line14, an_exception_under_no_sync_is_this_ranks_own) {
  run_as_threads(2, [](World& world) {
    Vectors model({{"w", {4}}}, 0);
    DistributedDataParallel ddp(model, group_of(world));
    if (world.rank() == 0) {
      const auto local_only = ddp.no_sync();
      const auto hook = model.all[0].register_post_accumulate_grad_hook(
          [](const Variable&) { throw std::runtime_error("user's hook"); });
      EXPECT_THROW(loss_of(model.all[0], 1).backward(), std::runtime_error);
      model.zero_grad();
    }
    loss_of(model.all[0], world.rank()).backward();
    EXPECT_EQ(values(model.all[0].grad()), filled(4, 0.5));
    world.leave();
  });
}

/// A linear layer that can be changed behind DDP's back.
class Changeable final : public nn::Module {
 public:
  Changeable() : frozen(Tensor::zeros({3})) {
    w = register_parameter("w", Tensor::full({3}, 2));
    frozen = register_parameter("frozen", Tensor::full({3}, 1));
    frozen.set_requires_grad(false);
  }
  Variable forward(const Variable& x) override { return x * w; }
  void add() { register_parameter("new", Tensor::zeros({2})); }
  Variable w, frozen;
};

TEST(Line15, a_model_that_changes_is_an_error_that_names_the_parameter) {
  run_as_threads(1, [](World& world) {
    const auto group = group_of(world);
    const Variable x(Tensor::full({3}, 1));
    {
      Changeable model;
      DistributedDataParallel ddp(model, group);
      model.add();
      TANDEM_EXPECT_ERROR(ddp.forward(x), "new was added");
    }
    {
      Changeable model;
      DistributedDataParallel ddp(model, group);
      model.frozen.set_requires_grad(true);
      TANDEM_EXPECT_ERROR(ddp.forward(x), "frozen was added, replaced, or switched to require a gradient");
    }
    {
      Changeable model;
      DistributedDataParallel ddp(model, group);
      TANDEM_EXPECT_ERROR(model.w.set_requires_grad(false), "still registered");
      TANDEM_EXPECT_ERROR(model.to(core::DType::float64), "a gradient destination of float32 [3] is attached");
    }
    world.leave();
  });
}

TEST(Line15, loading_weights_in_place_works) {
  run_as_threads(2, [](World& world) {
    Changeable model;
    DistributedDataParallel ddp(model, group_of(world));
    model.load_state_dict({{"w", Tensor::full({3}, 7)}, {"frozen", Tensor::full({3}, 8)}});
    autograd::sum(ddp.forward(Variable(Tensor::full({3}, 1.0 + world.rank())))).backward();
    EXPECT_EQ(values(model.w.grad()), filled(3, 1.5));
    EXPECT_EQ(values(model.w.data()), filled(3, 7));
    world.leave();
  });
}

}  // namespace
}  // namespace tandem::distributed
