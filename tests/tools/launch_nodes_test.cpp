// Several launchers, as on several machines.
#include "tests/held_port.h"
#include "tests/tools/launch_process.h"

namespace tandem::launch {
namespace {

// Two launchers, as on two machines.
class LaunchNodesTest : public LaunchTest {
 protected:
  LaunchNodesTest() { fs::create_directory(folder_ / "other"); }

  std::vector<std::string> node(const std::string& rank, const std::string& script, const std::string& ranks = "1") {
    return shell({"-n", ranks, "--nnodes", "2", "--node-rank", rank, "--master-addr", "127.0.0.1", "--master-port",
                  port_.str(), "--grace-s", "0.2"},
                 script);
  }

  HeldPort port_;
};

TEST_F(LaunchNodesTest, ranks_are_numbered_through) {
  const std::string script = "echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_PORT; sleep 1";
  Launched second(folder_ / "other", node("1", script, "2")), first(folder_, node("0", script, "2"));
  EXPECT_EQ(first.wait(), 0) << first.err();
  EXPECT_EQ(second.wait(), 0) << second.err();
  EXPECT_EQ(first.lines_of_rank("[1] "), std::vector{"1 4 1 2 " + port_.str()});
  EXPECT_EQ(second.lines_of_rank("[2] "), std::vector{"2 4 0 2 " + port_.str()});
}

TEST_F(LaunchNodesTest, the_wait_for_node_0_can_be_ended) {
  Launched run(folder_, node("1", "exit 0"));
  EXPECT_TRUE(eventually([&] { return run.err() == "launch: looks for node 0 on 127.0.0.1\n"; }));
  run.send(SIGINT);
  EXPECT_EQ(run.wait(), -SIGINT);
}

TEST_F(LaunchNodesTest, a_failure_reaches_the_other_node) {
  Launched first(folder_, node("0", "SLEEP"));
  ASSERT_TRUE(eventually([&] { return sleepers(sleep_) == 1; }));
  Launched second(folder_ / "other", node("1", "exit 7"));
  EXPECT_EQ(second.wait(), 7);
  EXPECT_EQ(first.wait(), 3);
  EXPECT_EQ(first.last_error(), "launch: error: rank 1 ended with exit code 7; the other ranks were stopped");
}

TEST_F(LaunchNodesTest, launchers_must_agree) {
  Launched first(folder_, node("0", "SLEEP"));
  ASSERT_TRUE(eventually([&] { return sleepers(sleep_) == 1; }));
  Launched more(folder_ / "other", node("1", "exit 0", "3"));
  EXPECT_EQ(more.wait(), 2);
  expect_contains(more.last_error(), "told of 2 nodes with 3 ranks each, another one of 2 nodes with 1 ranks each");
  EXPECT_NE(first.wait(), 0);  // which would wait for node 1 in vain
  expect_contains(first.last_error(), "-n and --nnodes must be the same on all nodes");
}

TEST_F(LaunchNodesTest, mistakes_beside_a_run_that_goes_well_are_its_own) {
  Launched first(folder_, node("0", "SLEEP"));
  ASSERT_TRUE(eventually([&] { return sleepers(sleep_) == 1; }));
  Launched second(folder_ / "other", node("1", "SLEEP"));
  ASSERT_TRUE(eventually([&] { return sleepers(sleep_) == 2; }));
  fs::create_directory(folder_ / "third");
  Launched twice(folder_ / "third", node("1", "exit 0"));
  EXPECT_EQ(twice.wait(), 2);
  expect_contains(twice.last_error(), "--node-rank 1: another launcher is that node");
  Launched more(folder_ / "third", node("1", "exit 0", "3"));
  EXPECT_EQ(more.wait(), 2);
  Launched again(folder_ / "third", node("0", "exit 0"));
  EXPECT_EQ(again.wait(), 1);
  expect_contains(again.last_error(), "port " + port_.str());
  second.send(SIGTERM);
  first.send(SIGTERM);
  EXPECT_EQ(second.wait(), 128 + SIGTERM);
  EXPECT_EQ(first.wait(), 128 + SIGTERM);
}

}  // namespace
}  // namespace tandem::launch
