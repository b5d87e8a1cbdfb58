// What DistributedDataParallel promises of buffers: line 26 (docs/ddp.md). Ranks are threads.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tandem/nn/batch_norm2d.h"
#include "tests/distributed/small_models.h"

namespace tandem::distributed {
namespace {

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

}  // namespace
}  // namespace tandem::distributed
