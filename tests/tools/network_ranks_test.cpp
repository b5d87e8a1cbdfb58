// tools/network_ranks: what it says to wrong usage, and that ranks meet over its links. The latter needs root and
// iproute2; where it cannot be done it must say why, in one line, with exit code 2.
#include <gtest/gtest.h>

#include <string>

#include "tests/tools/train_process.h"

namespace tandem::train {
namespace {

class NetworkRanksTest : public TrainTest {
 protected:
  Outcome run(const std::string& arguments) const {
    return shell("'" TANDEM_TEST_DATA "/../../tools/network_ranks' " + arguments);
  }

  /// Whether there was a network; where not, checks what was said.
  static bool has_network(const Outcome& outcome) {
    if (outcome.code != 2) return true;
    EXPECT_EQ(outcome.errors, outcome.last_error + "\n");
    EXPECT_TRUE(outcome.last_error.starts_with("network_ranks: error: network namespaces need root") ||
                outcome.last_error.starts_with("network_ranks: error: there is no 'ip'") ||
                outcome.last_error.starts_with("network_ranks: error: there is no 'tc'") ||
                outcome.last_error.starts_with("network_ranks: error: this machine does not let me"))
        << outcome.last_error;
    return false;
  }

  void expect_wrong_usage(const std::string& arguments, const std::string& message) const {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 2) << arguments;
    EXPECT_EQ(outcome.errors, "network_ranks: error: " + message + "\n");
  }
};

TEST_F(NetworkRanksTest, HelpNamesEveryFlag) {
  const Outcome outcome = run("--help");
  EXPECT_EQ(outcome.code, 0);
  for (const char* flag : {"-n N", "--rate RATE", "--threads K", "--grace-s S"})
    EXPECT_NE(outcome.output.find(flag), std::string::npos) << flag;
}

TEST_F(NetworkRanksTest, WrongUsageIsOneLine) {
  expect_wrong_usage("-- true", "-n '': how many ranks, 1 to 64");
  expect_wrong_usage("-n 0 -- true", "-n '0': how many ranks, 1 to 64");
  expect_wrong_usage("-n 65 -- true", "-n '65': how many ranks, 1 to 64");
  expect_wrong_usage("-n", "-n needs a value (see --help)");
  expect_wrong_usage("-n 2 --rate 100 -- true",
                     "--rate '100' is no rate: a number and kbit, mbit or gbit, such as 200mbit");
  expect_wrong_usage("-n 2 --threads 0 -- true", "--threads '0': a number from 1");
  expect_wrong_usage("-n 2 --grace-s soon -- true", "--grace-s 'soon': seconds, a whole number");
  expect_wrong_usage("-n 2", "no program: -n N -- PROGRAM ARGS...");
  expect_wrong_usage("-n 2 -- no-such-program", "there is no program 'no-such-program'");
}

TEST_F(NetworkRanksTest, RanksTrainOverLimitedLinks) {
  const Outcome outcome = run("-n 2 --rate 200mbit -- '" TANDEM_TRAIN
                              "' --model mlp --data synthetic --threads 1 --steps 3 --eval-every 0");
  if (!has_network(outcome)) return;
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_NE(outcome.output.find("[0] done: 3 of 3 steps\n"), std::string::npos) << outcome.output;
}

TEST_F(NetworkRanksTest, EndsWithTheFirstFailure) {
  // Rank 0 waits for ever: it is ended once the others had their time.
  const Outcome outcome =
      run("-n 3 --grace-s 1 -- sh -c 'case $RANK in 0) sleep 1000;; 1) exit 3;; 2) echo last words; exit 7;; esac'");
  if (!has_network(outcome)) return;
  EXPECT_EQ(outcome.code, 7);
  EXPECT_EQ(outcome.output, "[2] last words\n");
  EXPECT_EQ(outcome.errors, "network_ranks: 1 of 3 ranks did not end within 1 s: killed\n");
}

}  // namespace
}  // namespace tandem::train
