// Buckets in the order in which gradients were seen to arrive: line 7 of what DistributedDataParallel promises.
#include <gtest/gtest.h>

#include "tests/distributed/small_models.h"

namespace tandem::distributed {
namespace {

using Assignment = std::vector<std::vector<std::size_t>>;

DataParallelOptions observed(double cap_mb) {
  DataParallelOptions options;
  options.bucket_cap_mb = cap_mb;
  options.bucket_order = BucketOrder::observed;
  return options;
}

Assignment assignment_of(const DistributedDataParallel& ddp) { return ddp.reducer().plan().members(); }

TEST(Line7, buckets_follow_the_first_ranks_arrival_from_the_second_iteration_on) {
  run_as_threads(3, [](World& world) {
    Vectors model({{"a", {4}}, {"b", {4}}, {"c", {4}}, {"d", {4}}}, 0);
    DistributedDataParallel ddp(model, group_of(world), observed(64e-6));  // two parameters a bucket
    const auto backward = [&] {
      // The newest node runs first: gradients arrive as b, d, a, c on rank 0, and otherwise elsewhere.
      std::vector<std::size_t> order{2, 0, 3, 1};
      if (world.rank() > 0) order = {1, 2, 3, 0};
      std::vector<Variable> parts;
      for (const std::size_t i : order) parts.push_back(loss_of(model.all[i], static_cast<double>(i) * world.rank()));
      (((parts[0] + parts[1]) + parts[2]) + parts[3]).backward();
    };
    const auto expect_averages = [&](double times) {
      for (std::size_t i = 0; i < 4; ++i)
        EXPECT_EQ(values(model.all[i].grad()), filled(4, times * static_cast<double>(i))) << i;
    };
    const Assignment before = assignment_of(ddp);
    backward();
    expect_averages(1);  // what was accumulated is kept
    const Assignment after = assignment_of(ddp);
    EXPECT_NE(before, after);
    std::vector<std::size_t> flat;
    for (const auto& bucket : after) flat.insert(flat.end(), bucket.begin(), bucket.end());
    EXPECT_EQ(flat, (std::vector<std::size_t>{1, 3, 0, 2}));
    backward();
    expect_averages(2);
    EXPECT_EQ(assignment_of(ddp), after);  // once
    EXPECT_EQ(ddp.reducer().last_iteration().bytes_copied, 0);
    world.leave();
  });
}

TEST(Line7, parameters_that_did_not_arrive_come_last_in_order_of_registration) {
  run_as_threads(2, [](World& world) {
    Vectors model({{"a", {4}}, {"b", {4}}, {"c", {4}}, {"d", {4}}}, 0);
    DataParallelOptions options = observed(0);
    options.find_unused_parameters = true;
    DistributedDataParallel ddp(model, group_of(world), options);
    const Variable b = loss_of(model.all[1], 1), c = loss_of(model.all[2], 1);  // backward meets the newest first
    (b + c).backward();
    EXPECT_EQ(assignment_of(ddp), (Assignment{{2}, {1}, {0}, {3}}));
    EXPECT_FALSE(model.all[0].grad().defined());
    world.leave();
  });
}

}  // namespace
}  // namespace tandem::distributed
