// `train --backend mpi`, started by mpirun.
#include "tests/tools/rank_processes.h"
#include "tests/tools/train_ranks.h"

namespace tandem::train {
namespace {

// Each mpirun keeps its files apart from others'; Open MPI leaks, and locks in ways that sanitizers do not follow.
TEST_F(TrainRanks, mpi_trains_as_one_process) {
  write_rows("rows.safetensors", 23);
  const std::string common =
      std::string(kCommon) + "--data tensors:rows.safetensors --precision fp64 --steps 3 --model convnet ";
  train_well(common + "--save-weights one.w --batch-size 8");
  for (const std::string flags :
       {"", "--bucket-order observed --find-unused-parameters --bucket-cap-mb 0", "--round-robin-groups 2"}) {
    const HeldPort port;
    const Outcome outcome = shell(
        fmt::format("TMPDIR=. ASAN_OPTIONS=detect_leaks=0 TSAN_OPTIONS=detect_deadlocks=0 MASTER_ADDR=127.0.0.1 "
                    "MASTER_PORT={} '{}' --allow-run-as-root --oversubscribe -n 2 '{}' ",
                    port.number(), TANDEM_MPIRUN, TANDEM_TRAIN) +
        common + flags + " --backend mpi --batch-size 2 --accumulation-steps 2 --save-weights many.w --metrics many.m");
    EXPECT_EQ(outcome.code, 0) << outcome.output << outcome.errors;
    EXPECT_LE(largest_difference("one.w", "many.w"), 1e-10) << flags;
    EXPECT_EQ(hash("many.m"), hash("many.m.rank1")) << flags;
  }
}

}  // namespace
}  // namespace tandem::train
