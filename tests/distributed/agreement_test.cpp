// Ranks that compare notes through the store.
#include "tandem/distributed/agreement.h"

#include <gtest/gtest.h>

#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tandem/distributed/error.h"
#include "tandem/distributed/groups/thread_group.h"
#include "tests/errors.h"

namespace tandem::distributed {
namespace {

constexpr Milliseconds kLong{60000};

using Lines = std::vector<std::string>;

TEST(Agreement, RanksThatAgreeGoOn) {
  for (const int size : {1, 2, 3})
    run_as_threads(size, [](World& world) {
      verify_agreement(world, "nothing", Lines{}, kLong);
      verify_agreement(world, "words", Lines{"a", "b"}, kLong);
      verify_agreement(world, "a name of two lines", Lines{"a\nb", "c"}, kLong);
    });
}

// Also a second time about the same thing.
TEST(Agreement, ADifferenceIsTheSameErrorOnAllRanks) {
  std::mutex mutex;
  std::multiset<std::string> messages;
  run_as_threads(4, [&](World& world) {
    verify_agreement(world, "the weights", Lines{"a", "b"}, kLong);
    try {
      verify_agreement(world, "the weights", Lines{"a", world.rank() >= 2 ? "c" : "b"}, kLong);
    } catch (const SharedError& error) {
      const std::lock_guard lock(mutex);
      messages.insert(error.what());
    }
    verify_agreement(world, "the weights", Lines{"d"}, kLong);
  });
  EXPECT_EQ(messages.count("the weights differ: rank 0 has b, rank 2 has c"), 4U);
}

TEST(Agreement, WhoDoesNotComeIsNamed) {
  std::mutex mutex;
  std::multiset<std::string> messages;
  EXPECT_THROW(run_as_threads(3,
                              [&](World& world) {
                                if (world.rank() == 2) return world.leave();
                                try {
                                  verify_agreement(world, "the weights", Lines{"a"}, Milliseconds(300));
                                } catch (const PeerError& error) {
                                  const std::lock_guard lock(mutex);
                                  messages.insert(error.what());
                                  throw;
                                }
                              }),
               PeerError);
  EXPECT_EQ(messages.count("rank 2 did not come to compare the weights within 0.3 s"), 2U);
}

// As MPI's were that mpirun had not started: each rank alone in a group, where all agree.
TEST(Agreement, GroupsThatAreNotOneRunAreFoundOut) {
  run_as_threads(2, [](World& world) {
    ThreadNetwork alone(1);
    const Lines lines{"weights of rank " + std::to_string(world.rank())};
    verify_agreement(*alone.join("world", 0), "the weights", lines);
    EXPECT_THROW(verify_agreement(world, "the weights", lines, kLong), SharedError);
  });
}

}  // namespace
}  // namespace tandem::distributed
