// `train` on several ranks under the launcher.
#pragma once

#include <string>

#include "tests/tools/train_process.h"

namespace tandem::train {

class TrainRanks : public TrainTest {
 protected:
  /// Under the launcher; its own outcome.
  Outcome launch(int ranks, const std::string& arguments) const {
    return shell("'" TANDEM_LAUNCH "' -n " + std::to_string(ranks) + " -- '" TANDEM_TRAIN "' " + arguments);
  }
  Outcome launch_well(int ranks, const std::string& arguments) const {
    Outcome outcome = launch(ranks, arguments);
    EXPECT_EQ(outcome.code, 0) << arguments << "\n" << outcome.output << outcome.errors;
    return outcome;
  }
};

inline constexpr const char* kCommon =
    "--threads 1 --progress none --eval-every 0 --dropout 0 --lr 0.05 --momentum 0.9 --weight-decay 0.01 ";

}  // namespace tandem::train
