// What a machine, or a container, may be short of: said at once, by whoever is short of it.
#include "tests/tools/train_ranks.h"

namespace tandem::train {
namespace {

#ifndef __SANITIZE_ADDRESS__  // the sanitizers' own checks open descriptors, and take a failure to do so for a fault
TEST_F(TrainRanks, too_few_file_descriptors_are_named) {
  int failures = 0;
  for (const int limit : {5, 8, 12, 15, 16, 17, 18, 19, 40}) {
    const Outcome outcome =
        shell("prlimit --nofile=" + std::to_string(limit) +
              " '" TANDEM_LAUNCH "' -n 2 -- '" TANDEM_TRAIN
              "' --model mlp --data synthetic --synthetic-samples 16 --threads 1 --progress none --timeout-s 60");
    if (outcome.code == 0) continue;
    ++failures;
    const bool is_named = outcome.last_error.find("oo many open files") != std::string::npos ||
                          outcome.last_error.find("may open no more files") != std::string::npos;
    EXPECT_TRUE(is_named) << limit << ": " << outcome.errors;
  }
  EXPECT_GE(failures, 3);
}
#endif

TEST_F(TrainRanks, threads_that_cannot_be_made_are_named) {
  // Stacks that no address space holds, for every thread but the first.
  const Outcome outcome = train("--model mlp --data synthetic --synthetic-samples 16 --threads 3 --progress none");
  const Outcome without = shell("prlimit --stack=100000000000000 '" TANDEM_TRAIN
                                "' --model mlp --data synthetic --synthetic-samples 16 --threads 3 --progress none");
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(without.code, 1) << without.errors;
  EXPECT_TRUE(without.last_error.starts_with("train: error: cannot start a thread that ")) << without.errors;
  EXPECT_NE(without.last_error.find("raise the limit of threads (ulimit -u"), std::string::npos) << without.errors;
}

TEST_F(TrainRanks, a_machine_without_loopback_is_named) {
  if (shell("unshare --map-root-user --net true").code != 0) GTEST_SKIP() << "this machine gives no network namespaces";
  const Outcome outcome = shell("unshare --map-root-user --net '" TANDEM_TRAIN
                                "' --rank 1 --world-size 2 --init tcp://127.0.0.1:29500 --timeout-s 60 --model mlp "
                                "--data synthetic --synthetic-samples 16");
  EXPECT_EQ(outcome.code, 1) << outcome.errors;
  EXPECT_EQ(outcome.last_error,
            "train: error: this machine has no loopback interface that is up, so its ranks cannot connect: bring it up "
            "(ip link set lo up), or meet in a file (--init file:///PATH) with --interface of another one");
}

TEST_F(TrainRanks, a_starter_that_is_not_understood_is_warned_of) {
  const Outcome outcome = shell("MV2_COMM_WORLD_RANK=0 MV2_COMM_WORLD_SIZE=2 '" TANDEM_TRAIN
                                "' --model mlp --data synthetic --synthetic-samples 16 --threads 1 --progress none");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_TRUE(outcome.errors.starts_with("warning: MV2_COMM_WORLD_RANK is 0, MV2_COMM_WORLD_SIZE is 2: "))
      << outcome.errors;
}

TEST_F(TrainRanks, a_warning_that_does_not_arrive_ends_no_run) {
  const Outcome outcome = shell("MV2_COMM_WORLD_RANK=0 MV2_COMM_WORLD_SIZE=2 '" TANDEM_TRAIN
                                "' --model mlp --data synthetic --synthetic-samples 16 --threads 1 2> /dev/full");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_NE(outcome.output.find("done: 1 of 1 steps"), std::string::npos) << outcome.output;
}

}  // namespace
}  // namespace tandem::train
