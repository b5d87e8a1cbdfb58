// config.json of a run as the --config of another: settings go over, the run's outputs and what it found out do not.
#include "tests/errors.h"
#include "tests/tools/train_ranks.h"

namespace tandem::train {
namespace {

using testing::expect_contains;

std::string tiny(const std::string& more) {
  return "--model mlp --data synthetic --synthetic-samples 48 --batch-size 4 --progress none --eval-every 0 " + more;
}

class TrainConfig : public TrainRanks {
 protected:
  nlohmann::json config(const std::string& run) const {
    return nlohmann::json::parse(read_text(folder_ / run / "config.json"));
  }
};

TEST_F(TrainConfig, another_run_leaves_the_first_ones_files_alone) {
  train_well(tiny("--threads 1 --steps 3 --out one --save-weights w --metrics m --save-grads g --checkpoint-dir c"));
  const auto contents = [&] {
    std::string all;
    for (const char* name : {"w", "m", "g", "c/step-0000000003.safetensors", "one/config.json", "one/metrics.jsonl"})
      all += read_text(folder_ / name);
    return all;
  };
  const std::string before = contents();
  train_well("--config one/config.json --out two --seed 5");
  EXPECT_TRUE(contents() == before);
  EXPECT_EQ(config("two")["seed"], 5);
  EXPECT_EQ(config("two")["outputs"], (nlohmann::json{{"out", "two"}}));
  // Going on with it writes there again.
  train_well("--config one/config.json --resume --steps 5");
  EXPECT_EQ(losses("m").size(), 5u);
  EXPECT_TRUE(fs::exists(folder_ / "c/step-0000000005.safetensors"));
}

TEST_F(TrainConfig, a_number_of_threads_is_a_setting_only_if_it_was_chosen) {
  train_well(tiny("--steps 1 --out found"));
  EXPECT_TRUE(config("found")["threads"].is_null());
  EXPECT_GE(config("found")["facts"]["threads"], 1);
  train_well(tiny("--steps 1 --threads 1 --out chosen"));
  EXPECT_EQ(config("chosen")["threads"], 1);
  EXPECT_EQ(config("chosen")["facts"]["threads"], 1);
}

TEST_F(TrainConfig, another_number_of_ranks_is_told_with_both_batches) {
  launch_well(2, tiny("--threads 1 --steps 1 --accumulation-steps 3 --out two"));
  EXPECT_EQ(config("two")["facts"]["ranks"], 2);
  EXPECT_EQ(config("two")["facts"]["global_batch"], 24);
  const std::string line =
      "\n  batch       12 samples an update on 1 rank; the run of --config had 24 samples an update "
      "on 2 ranks (--batch-size, --accumulation-steps)\n";
  expect_contains(train_well("--config two/config.json --out one").output, line);
  EXPECT_EQ(config("one")["facts"]["global_batch"], 12);
  expect_contains(train_well("--config two/config.json --batch-size 8").output,
                  "\n  batch       24 samples an update on 1 rank; the run of --config had 24 samples an update on 2 "
                  "ranks\n");
  EXPECT_EQ(launch_well(2, "--config two/config.json").output.find("the run of --config"), std::string::npos);
}

}  // namespace
}  // namespace tandem::train
