// `train --backend mpi`, started by mpirun.
#include "tests/tools/rank_processes.h"
#include "tests/tools/train_ranks.h"

namespace tandem::train {
namespace {

constexpr const char* kOpenMpi = "TMPDIR=\"$PWD\" ASAN_OPTIONS=detect_leaks=0 TSAN_OPTIONS=detect_deadlocks=0 ";
constexpr const char* kTiny =
    "--model mlp --data synthetic --synthetic-samples 16 --batch-size 4 --threads 1 --progress none --eval-every 0 ";

std::string mpirun(int ranks) {
  return fmt::format("'{}' --allow-run-as-root --oversubscribe -n {} ", TANDEM_MPIRUN, ranks);
}

// Each mpirun keeps its files apart from others'; Open MPI leaks, and locks in ways that sanitizers do not follow.
TEST_F(TrainRanks, mpi_trains_as_one_process) {
  write_rows("rows.safetensors", 23);
  const std::string common =
      std::string(kCommon) + "--data tensors:rows.safetensors --precision fp64 --steps 3 --model convnet ";
  train_well(common + "--save-weights one.w --batch-size 8");
  for (const std::string flags :
       {"", "--bucket-order observed --find-unused-parameters --bucket-cap-mb 0", "--round-robin-groups 2"}) {
    const Outcome outcome =
        shell(kOpenMpi + mpirun(2) + "'" TANDEM_TRAIN "' " + common + flags +
              " --backend mpi --batch-size 2 --accumulation-steps 2 --save-weights many.w --metrics many.m");
    EXPECT_EQ(outcome.code, 0) << outcome.output << outcome.errors;
    EXPECT_LE(largest_difference("one.w", "many.w"), 1e-10) << flags;
    EXPECT_EQ(hash("many.m"), hash("many.m.rank1")) << flags;
  }
}

// Without mpirun each process is alone for MPI, and would train for itself.
TEST_F(TrainRanks, mpi_without_mpirun_is_refused_on_all_ranks) {
  const std::string cause =
      "group gradients: MPI started 1 process, the run has 2: start the ranks with mpirun or srun (mpirun -n 2 train "
      "--backend mpi ...), not with launch or by hand; or choose --backend gloo";
  const Outcome outcome = shell(std::string(kOpenMpi) + "'" TANDEM_LAUNCH "' -n 2 -- '" TANDEM_TRAIN "' " + kTiny +
                                "--backend mpi --save-weights w");
  EXPECT_EQ(outcome.code, 1) << outcome.errors;
  for (const char* rank : {"[0] ", "[1] "})
    EXPECT_NE(outcome.errors.find(rank + ("train: error: " + cause)), std::string::npos) << outcome.errors;
  EXPECT_FALSE(fs::exists(folder_ / "w"));

  const HeldPort port;
  RankProcesses ranks(folder_);
  for (const std::string rank : {"0", "1"})
    ranks.start("env " + std::string(kOpenMpi) + "'" TANDEM_TRAIN "' --rank " + rank +
                " --world-size 2 --backend mpi --init tcp://127.0.0.1:" + port.str() + " " + kTiny);
  for (const std::size_t i : {0U, 1U}) {
    EXPECT_EQ(ranks.wait(i).code, 1) << ranks.errors(i);
    EXPECT_EQ(ranks.wait(i).last_error, "train: error: " + cause);
  }
}

TEST_F(TrainRanks, mpirun_on_one_machine_needs_no_address) {
  const std::string train = std::string("\"" TANDEM_TRAIN "\" ") + kTiny;
  const auto expect_one_run = [&](const std::string& commands, const std::vector<std::string>& names) {
    const Outcome outcome = shell(kOpenMpi + mpirun(2) + "env -u MASTER_ADDR -u MASTER_PORT sh -c '" + commands + "'");
    ASSERT_EQ(outcome.code, 0) << outcome.output << outcome.errors;
    for (const std::string& name : names) EXPECT_EQ(hash(name), hash(name + ".rank1")) << commands;
  };
  expect_one_run(train + "--backend mpi --metrics m", {"m"});
  // Twice in one mpirun: the second run must not meet the first one's store.
  expect_one_run(train + "--metrics a && " + train + "--metrics b", {"a", "b"});
}

}  // namespace
}  // namespace tandem::train
