// Ranks that are threads of one process.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>

#include "tandem/core/parallel.h"
#include "tandem/distributed/world.h"
#include "tests/distributed/eventually.h"
#include "tests/distributed/expect_sum.h"
#include "tests/errors.h"

namespace tandem::distributed {
namespace {

using testing::eventually;
using testing::expect_contains;

TEST(RunAsThreads, EachIsARankThatComputesAlone) {
  for (const int size : {1, 2, 5}) {
    std::atomic<int> ranks = 0;
    run_as_threads(size, [&](World& world) {
      EXPECT_EQ(world.size(), size);
      EXPECT_EQ(world.local_size(), size);
      EXPECT_EQ(world.local_rank(), world.rank());
      EXPECT_EQ(core::num_threads(), 1);
      ranks += 1 << world.rank();
      const auto group = expect_sum(world, "gradients");
      if (world.rank() == 0) world.leave();  // others leave by returning
    });
    EXPECT_EQ(ranks, (1 << size) - 1);
  }
}

TEST(RunAsThreads, ThrowsTheFirstCauseAndNotItsEchoes) {
  for (const int culprit : {0, 2}) {
    TANDEM_EXPECT_ERROR(run_as_threads(3,
                                       [&](World& world) {
                                         if (world.rank() == culprit) core::fail("bucket {} is broken", culprit);
                                         EXPECT_TRUE(eventually([&] { return world.watch().failure().has_value(); }));
                                         EXPECT_EQ(world.watch().failure()->rank, culprit);
                                         expect_contains(world.watch().failure()->cause,
                                                         fmt::format("rank {}: bucket {}", culprit, culprit));
                                         world.leave();
                                       }),
                        fmt::format("bucket {} is broken", culprit));
  }
}

TEST(RunAsThreads, EndsWaitsOfTheOthers) {
  const auto begun = std::chrono::steady_clock::now();
  try {
    run_as_threads(3, [&](World& world) {
      const auto group = world.make_group("gradients");
      if (world.rank() == 1) throw std::invalid_argument("no gradient");
      group->all_reduce(core::Tensor::full({3}, 1.0))->wait();
    });
    ADD_FAILURE() << "nothing was thrown";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "no gradient");
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(30));
}

TEST(RunAsThreads, TheBackEndIsSaidWhenAGroupIsMade) {
  run_as_threads(3, [&](World& world) {
    for (const auto& [name, backend] : {std::pair{"a", Backend::gloo}, std::pair{"b", Backend::memory}}) {
      const auto group = world.make_group(name, backend);
      core::Tensor sum = core::Tensor::full({2}, world.rank() + 1);
      group->all_reduce(sum)->wait();
      EXPECT_EQ(sum.to_vector<float>(), (std::vector<float>{6, 6}));
    }
    TANDEM_EXPECT_ERROR(world.make_group("c", Backend::mpi), "group c: MPI's ranks are processes");
  });
}

TEST(RunAsThreads, OfNoRanks) {
  TANDEM_EXPECT_ERROR(run_as_threads(0, [](World&) {}), "0 ranks");
}

}  // namespace
}  // namespace tandem::distributed
