// What no_sync promises: lines 22 to 24 (docs/ddp.md). Ranks are threads.
#include <gtest/gtest.h>

#include <stdexcept>
#include <utility>

#include "tests/distributed/small_models.h"

namespace tandem::distributed {
namespace {

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

}  // namespace
}  // namespace tandem::distributed
