// Pauses of a process do not count as time.
#include "tandem/distributed/awake_clock.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "tandem/distributed/network/deadline.h"

namespace tandem::distributed {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(AwakeClock, counts_what_is_looked_at_and_little_of_a_pause) {
  const AwakeTime::Steady::time_point begin;
  AwakeTime time(begin);
  EXPECT_EQ(time.look(begin + seconds(1)), seconds(1));
  EXPECT_EQ(time.look(begin + milliseconds(2500)), milliseconds(2500));
  EXPECT_EQ(time.look(begin + seconds(1000)), milliseconds(2500) + AwakeClock::kMost);
  EXPECT_EQ(time.look(begin + seconds(999)), milliseconds(2500) + AwakeClock::kMost);  // threads race
  EXPECT_EQ(time.look(begin + seconds(1001)), milliseconds(3500) + AwakeClock::kMost);
}

TEST(AwakeClock, waits_end_at_their_deadline) {
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(wait_until(never, lock, AwakeClock::now() + milliseconds(2200), [] { return false; }));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, milliseconds(2200));
  EXPECT_TRUE(wait_until(never, lock, AwakeClock::now(), [] { return true; }));
}

TEST(AwakeClock, who_waits_until_a_deadline_looks_often) {
  EXPECT_LE(Deadline(seconds(100)).nap(), AwakeClock::kLook);
  EXPECT_EQ(Deadline(milliseconds(-1)).nap(), milliseconds(0));
  EXPECT_LT(AwakeClock::kLook, AwakeClock::kMost);
}

}  // namespace
}  // namespace tandem::distributed
