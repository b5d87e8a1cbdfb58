#include "tandem/core/recorder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

namespace tandem::core {
namespace {

class Recorder : public ::testing::Test {
 protected:
  void SetUp() override { recorder::drain(); }
  void TearDown() override {
    recorder::enable(false);
    recorder::drain();
  }
};

TEST_F(Recorder, OffRecordsNothing) {
  EXPECT_FALSE(recorder::enabled());
  { RecordScope scope("conv2d"); }
  EXPECT_TRUE(recorder::drain().empty());
}

TEST_F(Recorder, ScopesNestAndComeOrderedByBegin) {
  recorder::enable(true);
  {
    RecordScope outer("backward", "phase");
    RecordScope inner("conv2d");
  }
  const auto events = recorder::drain();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(std::string(events[0].name), "backward");
  EXPECT_EQ(std::string(events[0].category), "phase");
  EXPECT_EQ(std::string(events[1].name), "conv2d");
  EXPECT_EQ(std::string(events[1].category), "op");
  EXPECT_LE(events[0].begin_ns, events[1].begin_ns);
  EXPECT_GE(events[0].end_ns, events[1].end_ns);
  EXPECT_LE(events[1].begin_ns, events[1].end_ns);
  EXPECT_EQ(events[0].thread, events[1].thread);
  EXPECT_TRUE(recorder::drain().empty()) << "drained once";
}

TEST_F(Recorder, AScopeBelongsToTheTimeOfItsBegin) {
  {
    RecordScope before("before");
    recorder::enable(true);
  }
  EXPECT_TRUE(recorder::drain().empty());
  {
    RecordScope during("during");
    recorder::enable(false);
  }
  EXPECT_EQ(recorder::drain().size(), 1u);
}

TEST_F(Recorder, KeepsTheEventsOfThreadsThatEnded) {
  recorder::enable(true);
  constexpr int kThreads = 4, kEvents = 500;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([] {
      for (int k = 0; k < kEvents; ++k) RecordScope scope("work", "op");
    });
  for (std::thread& thread : threads) thread.join();
  const auto events = recorder::drain();
  ASSERT_EQ(events.size(), static_cast<std::size_t>(kThreads * kEvents));
  std::vector<int> seen;
  for (std::size_t i = 0; i < events.size(); ++i) {
    ASSERT_LE(events[i > 0 ? i - 1 : 0].begin_ns, events[i].begin_ns);
    if (std::find(seen.begin(), seen.end(), events[i].thread) == seen.end()) seen.push_back(events[i].thread);
  }
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(kThreads));
}

}  // namespace
}  // namespace tandem::core
