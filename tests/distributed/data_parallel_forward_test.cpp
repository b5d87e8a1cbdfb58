// The one way into DDP: any callable, or the module's own forward with one or several inputs. Ranks are threads.
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "tandem/core/recorder.h"
#include "tandem/nn/batch_norm2d.h"
#include "tests/distributed/small_models.h"
#include "tests/errors.h"

namespace tandem::distributed {
namespace {

/// Takes a tensor and a number, and has buffers.
class Scaled final : public nn::Module {
 public:
  Scaled() : norm(1) {
    weight = register_parameter("weight", Tensor::full({1}, 2));
    register_module("norm", norm);
  }
  using nn::Module::forward;
  Variable forward(const Variable& x, double scale) { return norm.forward(x) * weight * scale; }
  void add_parameter() { register_parameter("new", Tensor::zeros({1})); }

  Variable weight;
  nn::BatchNorm2d norm;
};

Variable input_of(int rank) {
  Tensor x = Tensor::full({2, 1, 1, 1}, rank);
  x.slice(0, 0, 1).fill(1 + 10 * rank);
  return Variable(x);
}

double batches_seen(Scaled& model) { return model.named_buffers().back().tensor->item(); }

TEST(Forward, any_callable_and_any_result_will_do) {
  run_as_threads(2, [](World& world) {
    Vectors model({{"a", {4}}}, 0);
    DistributedDataParallel ddp(model, group_of(world));
    const auto loss = [&] { return loss_of(model.all[0], 1 + world.rank()); };
    Variable kept;
    ddp.forward([&] { kept = loss(); });  // nothing
    kept.backward();
    EXPECT_GT(ddp.reducer().last_iteration().forward.begin_ns, 0);
    ddp.forward([&] { return std::pair(loss(), std::string("beside it")); }).first.backward();
    EXPECT_EQ(values(model.all[0].grad()), filled(4, 3));
    EXPECT_EQ(&ddp.forward([&]() -> Variable& { return model.all[0]; }), &model.all[0]);
    world.leave();
  });
}

TEST(Forward, a_module_with_several_inputs_is_called_by_its_own_class) {
  run_as_threads(2, [](World& world) {
    Scaled model;
    DistributedDataParallel ddp(model, group_of(world));
    autograd::sum(ddp.forward(model, input_of(world.rank()), 3.0) * 1.0).backward();
    EXPECT_GT(ddp.reducer().last_iteration().forward.ms(), 0);
    EXPECT_NEAR(batches_seen(model), 1, 0);
    ddp.forward(model, input_of(world.rank()), 3.0);  // gets rank 0's statistics first
    ddp.sync_buffers();
    Scaled other;
    TANDEM_EXPECT_ERROR(ddp.forward(other, input_of(0), 1.0), "another module than the one that was wrapped");
    world.leave();
  });
}

TEST(Forward, parameters_are_checked_and_buffers_made_equal_before_the_callable_runs) {
  run_as_threads(2, [](World& world) {
    Scaled model;
    DistributedDataParallel ddp(model, group_of(world));
    const auto running_mean = [&] { return values(*model.named_buffers().front().tensor)[0]; };
    autograd::sum(ddp.forward(model, input_of(world.rank()), 1.0)).backward();
    const double mine = running_mean();
    ddp.forward([&] { EXPECT_EQ(running_mean() == mine, world.rank() == 0); });
    model.add_parameter();
    bool has_run = false;
    TANDEM_EXPECT_ERROR(ddp.forward([&] { has_run = true; }), "new was added");
    EXPECT_FALSE(has_run);
    world.leave();
  });
}

// The second rank's forward fails after buffers were broadcast; it tries again, and is still in step with the others.
TEST(Forward, an_exception_in_it_leaves_ddp_usable) {
  for (const int ranks_that_fail : {1, 2})
    run_as_threads(2, [&](World& world) {
      Scaled model;
      DistributedDataParallel ddp(model, group_of(world));
      for (int i = 1; i <= 3; ++i) {
        if (world.rank() >= 2 - ranks_that_fail) {
          EXPECT_THROW(ddp.forward([&] { throw std::runtime_error("user's forward"); }), std::runtime_error);
        }
        const std::int64_t begin_ns = core::recorder::now_ns();
        model.zero_grad();
        autograd::sum(ddp.forward(model, input_of(world.rank()), 1.0) * input_of(world.rank())).backward();
        EXPECT_TRUE(model.weight.grad().defined());
        EXPECT_EQ(ddp.reducer().iterations(), i);
        EXPECT_GE(ddp.reducer().last_iteration().forward.begin_ns, begin_ns);
      }
      EXPECT_EQ(batches_seen(model), 3);
      world.leave();
    });
}

TEST(Forward, one_that_failed_is_no_backwards_forward) {
  run_as_threads(1, [](World& world) {
    Vectors model({{"a", {4}}}, 0);
    DistributedDataParallel ddp(model, group_of(world));
    const Variable loss = ddp.forward([&] { return loss_of(model.all[0], 1); });
    const std::int64_t end_ns = core::recorder::now_ns();
    EXPECT_THROW(ddp.forward([&] { throw std::runtime_error("user's forward"); }), std::runtime_error);
    loss.backward();
    EXPECT_LE(ddp.reducer().last_iteration().forward.end_ns, end_ns);
    EXPECT_GT(ddp.reducer().last_iteration().forward.begin_ns, 0);
    world.leave();
  });
}

}  // namespace
}  // namespace tandem::distributed
