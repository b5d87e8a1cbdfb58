// Parameters that an iteration leaves out: lines 12 and 16 to 21 of what DistributedDataParallel promises.
#include "tandem/distributed/unused_parameters.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tandem/autograd/node.h"
#include "tandem/core/ops/random_fill.h"
#include "tandem/optim/sgd.h"
#include "tests/distributed/small_models.h"
#include "tests/errors.h"

namespace tandem::distributed {
namespace {

using Named = std::vector<std::pair<std::string, core::Shape>>;

DataParallelOptions find_unused() {
  DataParallelOptions options;
  options.find_unused_parameters = true;
  return options;
}
DataParallelOptions static_graph() {
  DataParallelOptions options;
  options.static_graph = true;
  return options;
}

/// The sum of the losses of these parameters; factor 1.
Variable loss_of_these(const Vectors& model, const std::vector<std::size_t>& which, double factor = 1) {
  Variable loss;
  for (const std::size_t i : which) {
    const Variable part = loss_of(model.all[i], factor);
    loss = loss.defined() ? loss + part : part;
  }
  return loss;
}

TEST(Line12, a_parameter_that_the_loss_does_not_reach_is_named_when_backward_begins) {
  run_as_threads(2, [](World& world) {
    Vectors model({{"used", {2}}, {"idle", {2}}, {"idler", {2}}}, 0);
    DistributedDataParallel ddp(model, group_of(world));
    TANDEM_EXPECT_ERROR(loss_of(model.all[0], 1).backward(),
                        "does not depend on idle, idler: let it, give find_unused");
    EXPECT_FALSE(model.all[0].grad().defined());
    // Nothing was sent and nobody waits: the next one is fine (line 14).
    loss_of_these(model, {0, 1, 2}).backward();
    EXPECT_EQ(values(model.all[2].grad()), filled(2, 1));
    world.leave();
  });
}

TEST(Line12, reached_without_a_gradient_is_the_same_error_at_the_end) {
  run_as_threads(2, [](World& world) {
    Vectors model({{"used", {2}}, {"cut", {2}}}, 0);
    DistributedDataParallel ddp(model, group_of(world));
    // A node that has no gradient to give.
    const Variable cut = autograd::record("silent", model.all[1].data().clone(), {model.all[1]},
                                          [](const Tensor&, autograd::Gradients&) {});
    TANDEM_EXPECT_ERROR((loss_of(model.all[0], 1) + autograd::sum(cut)).backward(),
                        "reached cut, but no gradient came");
    loss_of_these(model, {0, 1}).backward();
    EXPECT_EQ(values(model.all[1].grad()), filled(2, 1));
    world.leave();
  });
}

TEST(Line12, the_error_at_the_end_names_no_parameter_that_is_not_used_at_all) {
  run_as_threads(2, [](World& world) {
    Vectors model({{"used", {2}}, {"cut", {2}}, {"unused", {2}}}, 0);
    DistributedDataParallel ddp(model, group_of(world), find_unused());
    const Variable cut = autograd::record("silent", model.all[1].data().clone(), {model.all[1]},
                                          [](const Tensor&, autograd::Gradients&) {});
    TANDEM_EXPECT_ERROR((loss_of(model.all[0], 1) + autograd::sum(cut)).backward(),
                        "reached cut, but no gradient came");
    world.leave();
  });
}

TEST(Line16, a_rank_without_a_loss_takes_part_with_zeros_and_what_accumulated) {
  for (const DataParallelOptions& options : {DataParallelOptions{}, find_unused()}) {
    run_as_threads(3, [&](World& world) {
      Vectors model({{"a", {2}}, {"b", {2}}}, 0);
      DistributedDataParallel ddp(model, group_of(world), options);
      if (world.rank() == 2) {
        ddp.backward_without_loss();
      } else {
        loss_of_these(model, {0, 1}, 3).backward();
      }
      EXPECT_EQ(values(model.all[0].grad()), filled(2, 2));
      model.zero_grad();
      if (world.rank() == 2) {
        {
          const auto local_only = ddp.no_sync();
          loss_of_these(model, {1}, 6).backward();
        }
        ddp.backward_without_loss();
      } else {
        loss_of_these(model, {0, 1}, 3).backward();
      }
      EXPECT_EQ(values(model.all[0].grad()), filled(2, 2));
      EXPECT_EQ(values(model.all[1].grad()), filled(2, 4));
      world.leave();
    });
  }
}

TEST(Line17, what_one_rank_leaves_out_another_may_use) {
  run_as_threads(3, [](World& world) {
    Vectors model({{"a", {2}}, {"b", {2}}, {"c", {2}}}, 0);
    DistributedDataParallel ddp(model, group_of(world), find_unused());
    for (int i = 0; i < 2; ++i) {
      model.zero_grad();
      loss_of_these(model, {static_cast<std::size_t>(world.rank())}, 6).backward();  // each its own
      for (const Variable& parameter : model.all) EXPECT_EQ(values(parameter.grad()), filled(2, 2));
      EXPECT_TRUE(ddp.reducer().last_iteration().unused_parameters.empty());
    }
    world.leave();
  });
}

TEST(Line17, the_bitmap_is_sent_in_this_mode_only) {
  class Counting final : public ProcessGroup {
   public:
    Counting(std::shared_ptr<ProcessGroup> inner, std::shared_ptr<int> count)
        : ProcessGroup(inner->name(), inner->rank(), inner->size()),
          inner_(std::move(inner)),
          count_(std::move(count)) {}
    std::shared_ptr<ProcessGroup> duplicate(const std::string& name) override {
      return std::make_shared<Counting>(inner_->duplicate(name), count_);
    }
    void abort(const std::string& cause) override { inner_->abort(cause); }
    WorkPtr submit(Collective collective) override {
      *count_ += collective.kind == Collective::Kind::all_reduce;
      return inner_->submit(std::move(collective));
    }

   private:
    std::shared_ptr<ProcessGroup> inner_;
    std::shared_ptr<int> count_;
  };
  for (const auto& [options, expected] :
       {std::pair{DataParallelOptions{}, 3}, {find_unused(), 6}, {static_graph(), 4}}) {
    run_as_threads(2, [&, &options = options, expected = expected](World& world) {
      const auto count = std::make_shared<int>(0);
      Vectors model({{"a", {2}}}, 0);
      DistributedDataParallel ddp(model, std::make_shared<Counting>(group_of(world), count), options);
      for (int i = 0; i < 3; ++i) loss_of(model.all[0], 1).backward();
      EXPECT_EQ(*count, expected);
      world.leave();
    });
  }
}

TEST(Line18, a_gradient_that_nobody_used_keeps_its_bits) {
  run_as_threads(3, [](World& world) {
    Vectors model({{"used", {1000}}, {"idle", {1000}}}, 0, DType::float32);
    DistributedDataParallel ddp(model, group_of(world), find_unused());
    Tensor bits = Tensor::empty({1000});
    core::fill_uniform(bits, -1, 1, core::RandomContext{.seed = 9}.stream(1));
    model.all[1].set_grad(bits.clone());
    const Tensor noise = Tensor::full({1000}, 1.0 + world.rank());
    autograd::sum(model.all[0] * Variable(noise)).backward();
    EXPECT_EQ(model.all[1].grad().to_vector<float>(), bits.to_vector<float>());
    EXPECT_EQ(model.all[0].grad().to_vector<float>(), std::vector<float>(1000, 2));
    EXPECT_EQ(ddp.reducer().last_iteration().unused_parameters, std::vector<std::string>{"idle"});
    world.leave();
  });
}

TEST(Line18, none_stays_none_and_neither_momentum_nor_decay_moves_the_parameter) {
  run_as_threads(2, [](World& world) {
    Vectors model({{"used", {2}}, {"idle", {2}}}, 5);
    DistributedDataParallel ddp(model, group_of(world), find_unused());
    optim::Sgd sgd(model.parameters(), {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1});
    loss_of_these(model, {0, 1}).backward();
    sgd.step();
    const Values before = values(model.all[1].data());
    for (int i = 0; i < 2; ++i) {
      sgd.zero_grad();
      loss_of(model.all[0], 1).backward();
      EXPECT_FALSE(model.all[1].grad().defined());
      sgd.step();
    }
    EXPECT_EQ(values(model.all[1].data()), before);
    sgd.zero_grad();
    loss_of_these(model, {0, 1}, 2).backward();  // and it comes back
    EXPECT_EQ(values(model.all[1].grad()), filled(2, 2));
    world.leave();
  });
}

TEST(Line19, used_is_what_any_micro_step_used_on_any_rank) {
  run_as_threads(3, [](World& world) {
    Vectors model({{"always", {2}}, {"early", {2}}, {"never", {2}}}, 0);
    DistributedDataParallel ddp(model, group_of(world), find_unused());
    for (int round = 0; round < 2; ++round) {
      model.zero_grad();
      if (world.rank() == 1) {
        const auto local_only = ddp.no_sync();
        loss_of_these(model, {0, 1}, 3).backward();
      }
      loss_of(model.all[0], 3).backward();
      EXPECT_EQ(values(model.all[0].grad()), filled(2, 4));
      EXPECT_EQ(values(model.all[1].grad()), filled(2, 1));
      EXPECT_FALSE(model.all[2].grad().defined());
    }
    world.leave();
  });
}

TEST(Line20, an_output_that_the_loss_ignores_needs_no_care) {
  run_as_threads(2, [](World& world) {
    Vectors model({{"a", {2}}, {"b", {2}}}, 0);
    DistributedDataParallel ddp(model, group_of(world), find_unused());
    const Variable ignored = loss_of(model.all[1], 1);  // made in forward, and left alone
    loss_of(model.all[0], 1).backward();
    EXPECT_EQ(ddp.reducer().last_iteration().unused_parameters, std::vector<std::string>{"b"});
    ignored.backward();
    EXPECT_EQ(values(model.all[1].grad()), filled(2, 1));
    world.leave();
  });
}

TEST(Line21, a_static_graph_is_found_once) {
  run_as_threads(3, [](World& world) {
    Vectors model({{"all", {2}}, {"some", {2}}, {"never", {2}}}, 0);
    DistributedDataParallel ddp(model, group_of(world), static_graph());
    for (int i = 0; i < 3; ++i) {
      model.zero_grad();
      loss_of_these(model, world.rank() == 1 ? std::vector<std::size_t>{0, 1} : std::vector<std::size_t>{0}, 3)
          .backward();
      EXPECT_EQ(values(model.all[0].grad()), filled(2, 3));
      EXPECT_EQ(values(model.all[1].grad()), filled(2, 1));
      EXPECT_FALSE(model.all[2].grad().defined());
      EXPECT_EQ(ddp.reducer().last_iteration().unused_parameters, std::vector<std::string>{"never"});
    }
    world.leave();
  });
}

TEST(Line21, a_change_is_an_error_that_names_the_parameter) {
  run_as_threads(2, [](World& world) {
    Vectors model({{"a", {2}}, {"b", {2}}}, 0);
    DistributedDataParallel ddp(model, group_of(world), static_graph());
    loss_of(model.all[0], 1).backward();
    TANDEM_EXPECT_ERROR(loss_of_these(model, {0, 1}).backward(), "b is used, and was not used in the first iteration");
    TANDEM_EXPECT_ERROR(ddp.backward_without_loss(), "a is not used, and was used");
    world.leave();
  });
}

TEST(Line21, counts_are_of_synced_passes) {
  run_as_threads(2, [](World& world) {
    Vectors model({{"a", {2}}, {"b", {2}}}, 0);
    DistributedDataParallel ddp(model, group_of(world), static_graph());
    for (int i = 0; i < 3; ++i) {  // b in the first micro-step only
      model.zero_grad();
      {
        const auto local_only = ddp.no_sync();
        loss_of_these(model, {0, 1}).backward();
      }
      loss_of(model.all[0], 1).backward();
      EXPECT_EQ(values(model.all[0].grad()), filled(2, 2));
      EXPECT_EQ(values(model.all[1].grad()), filled(2, 1));
    }
    EXPECT_EQ(ddp.reducer().iterations(), 3);
    world.leave();
  });
}

}  // namespace
}  // namespace tandem::distributed
