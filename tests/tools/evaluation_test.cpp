// An evaluation that is stopped never counts as whole.
#include "tandem/train/evaluation.h"

#include <gtest/gtest.h>

#include "tools/train/settings/command_line.h"
#include "tools/train/settings/narrow_options.h"
#include "tools/train/tasks/initial_state.h"

namespace tandem::train {
namespace {

Settings settings() {
  const std::vector<const char*> arguments{
      "train", "--model",      "mlp", "--data",       "synthetic", "--synthetic-samples", "80", "--rank",
      "0",     "--world-size", "1",   "--batch-size", "4"};
  return parse_command_line(static_cast<int>(arguments.size()), arguments.data()).value();
}

// Whenever the wish to stop comes: five batches, and what is asked between two looks at the answer too.
TEST(Evaluation, is_whole_or_none) {
  const Settings s = settings();
  Ranks ranks(ranks_options(s));
  const DataSource data = open_data(s);
  const InitialState begun = initial_state(s, data, run_length(s, 1, data.train->size()));
  for (int stop_at = 1; stop_at <= 6; ++stop_at) {
    int questions = 0;
    const auto result =
        evaluate({.batch_size = s.batch_size}, ranks, *begun.state.task, data.test, [&] { return ++questions >= stop_at; });
    EXPECT_EQ(result.has_value(), stop_at > 5) << "stopped at question " << stop_at;
    EXPECT_EQ(questions, std::min(stop_at, 5));
  }
  ranks.world().leave();
}

}  // namespace
}  // namespace tandem::train
