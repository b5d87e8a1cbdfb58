// What is kept of a run and what it goes on from: no trained update is lost to an evaluation, a divergence or damage.
#include <csignal>
#include <thread>

#include "tests/errors.h"
#include "tests/tools/train_ranks.h"
#include "tandem/train/checkpoint_folder.h"

namespace tandem::train {
namespace {

using testing::error_of;
using testing::expect_contains;

std::string tiny(const std::string& more) {
  return "--model mlp --data synthetic --synthetic-samples 22 --batch-size 4 --threads 1 --progress none " + more;
}

class TrainCheckpoint : public TrainRanks {
 protected:
  /// Changes one byte.
  void damage(const std::string& name, std::size_t at) const {
    std::string bytes = read_text(folder_ / name);
    bytes.at(at) ^= 1;
    write(name, bytes);
  }

  /// Of the evaluations: after which update each was made.
  std::vector<int> evaluated(const std::string& name) const {
    std::vector<int> steps;
    for (const auto& line : metrics(name))
      if (line.contains("eval_loss")) steps.push_back(line.at("step"));
    return steps;
  }
};

TEST_F(TrainCheckpoint, a_changed_byte_is_found_wherever_it_is) {
  train_well(
      "--model mlp --data synthetic --synthetic-samples 4 --batch-size 4 --threads 1 --progress none "
      "--eval-every 0 --checkpoint-dir c --steps 1");
  const std::string file = "c/step-0000000001.safetensors", whole = read_text(folder_ / file);
  const Checkpoint good = read_checkpoint(path(file));
  EXPECT_EQ(good.metadata.at("checksum"), checksum(good));
  // All of the header, and places all over the tensors.
  const std::size_t header = 8 + static_cast<unsigned char>(whole[0]) + 256 * static_cast<unsigned char>(whole[1]);
  std::vector<std::size_t> places;
  for (std::size_t at = 0; at < header; ++at) places.push_back(at);
  for (std::size_t at = header; at < whole.size(); at += whole.size() / 50) places.push_back(at);
  places.push_back(whole.size() - 1);
  std::fstream bytes(folder_ / file, std::ios::in | std::ios::out | std::ios::binary);
  for (const std::size_t at : places) {
    const auto put = [&](char value) {
      bytes.seekp(static_cast<std::streamoff>(at));
      bytes.put(value).flush();
    };
    put(static_cast<char>(whole[at] ^ 4));
    expect_contains(error_of([&] { read_checkpoint(path(file)); }), "step-0000000001.safetensors");
    put(whole[at]);
  }
  read_checkpoint(path(file));
}

TEST_F(TrainCheckpoint, a_damaged_one_is_passed_over_for_the_one_before) {
  train_well(tiny("--out whole --steps 5"));
  train_well(tiny("--out parts --steps 4 --checkpoint-every 1"));
  const std::string third = "parts/checkpoints/step-0000000003.safetensors",
                    fourth = "parts/checkpoints/step-0000000004.safetensors";
  damage(fourth, read_text(folder_ / fourth).size() - 5);
  write(third, read_text(folder_ / third).substr(0, 1000));  // cut short
  const Outcome outcome = train_well(tiny("--out parts --steps 5 --resume"));
  expect_contains(outcome.output,
                  "passed over parts/checkpoints/step-0000000004.safetensors: is damaged: its contents "
                  "have the checksum crc32 ");
  expect_contains(outcome.output, "passed over parts/checkpoints/step-0000000003.safetensors");
  expect_contains(outcome.output, "after step 2, from parts/checkpoints/step-0000000002.safetensors");
  EXPECT_EQ(hash("parts/metrics.jsonl"), hash("whole/metrics.jsonl"));
  EXPECT_EQ(losses("parts/metrics.jsonl"), losses("whole/metrics.jsonl"));
}

TEST_F(TrainCheckpoint, damaged_ones_are_set_aside_so_that_the_newest_is_what_the_run_saved) {
  train_well(tiny("--checkpoint-dir c --steps 4 --checkpoint-every 1"));
  for (const char* name : {"c/step-0000000003.safetensors", "c/step-0000000004.safetensors"}) write(name, "x");
  train_well(tiny("--checkpoint-dir c --steps 3 --resume"));
  EXPECT_EQ(newest_checkpoint(path("c")), folder_ / "c/step-0000000003.safetensors");
  for (const char* name : {"c/step-0000000003.safetensors.damaged", "c/step-0000000004.safetensors.damaged"})
    EXPECT_EQ(read_text(folder_ / name), "x");
  const Outcome outcome = train_well(tiny("--checkpoint-dir c --steps 4 --resume"));
  EXPECT_EQ(outcome.output.find("passed over"), std::string::npos) << outcome.output;
}

TEST_F(TrainCheckpoint, if_all_are_damaged_nothing_begins_anew) {
  train_well(tiny("--checkpoint-dir c --steps 2 --checkpoint-every 1"));
  for (const char* name : {"c/step-0000000001.safetensors", "c/step-0000000002.safetensors"}) write(name, "x");
  expect_failure(tiny("--checkpoint-dir c --steps 3 --resume"), 1,
                 "c: no checkpoint can be read; the newest: c/step-0000000002.safetensors");
}

TEST_F(TrainCheckpoint, what_is_not_finite_is_not_kept) {
  train_well(tiny("--checkpoint-dir c --checkpoint-every 1 --steps 3"));
  for (const std::string optimizer : {"", "--eval-every 0 "})
    expect_failure(tiny(optimizer + "--checkpoint-dir c --checkpoint-every 1 --steps 6 --resume --lr 1e300"), 1,
                   "holds values that are not finite or too large after the last update, step 4: training diverged; a "
                   "lower --lr, --warmup-steps or --clip-grad-norm may help");
  train_well(tiny("--checkpoint-dir c --steps 4 --resume"));
}

// One rank alone would wait for the others in the next collective.
TEST_F(TrainCheckpoint, ranks_that_diverge_end_together) {
  const Outcome outcome = launch(2, tiny("--checkpoint-dir c --checkpoint-every 1 --steps 2 --lr 1e300"));
  EXPECT_EQ(outcome.code, 1) << outcome.errors;
  expect_contains(outcome.errors, "training diverged");
  EXPECT_EQ(outcome.errors.find("left"), std::string::npos) << outcome.errors;
}

// The schedule's length is part of what was trained: another one would let the rate jump.
TEST_F(TrainCheckpoint, a_schedule_keeps_its_length) {
  for (const std::string schedule : {"cosine", "linear"}) {
    const std::string common = tiny("--eval-every 0 --lr 0.1 --lr-schedule " + schedule + " --out " + schedule);
    train_well(common + " --steps 5");
    expect_failure(common + " --steps 8 --resume", 1,
                   "the state is of one over 5 updates, this one is over 8: the rate would jump from 0 to 0.0");
    expect_failure(common + " --epochs 2 --resume", 1,
                   "; give the same --epochs and --steps as before, or the updates over which it falls as --lr-steps");
    const Outcome outcome = train_well(common + " --steps 6 --lr-steps 8 --resume");
    expect_contains(outcome.output, schedule + " over 8 steps");
    expect_contains(outcome.output, "changed     --lr-steps unset, now 8");
    train_well(common + " --steps 7 --lr-steps 8 --resume");  // as it is now
    // Two parts of a schedule that was planned for both.
    train_well(tiny("--eval-every 0 --lr 0.1 --steps 6 --metrics m --lr-schedule " + schedule));
    const std::string planned = tiny("--eval-every 0 --lr 0.1 --lr-steps 6 --lr-schedule " + schedule +
                                     " --overwrite=false --out planned-" + schedule);
    train_well(planned + " --steps 3");
    train_well(planned + " --steps 6 --resume");
    EXPECT_EQ(hash("m"), hash("planned-" + schedule + "/metrics.jsonl"));
  }
}

TEST_F(TrainCheckpoint, what_is_chosen_anew_is_said) {
  train_well(tiny("--checkpoint-dir c --lr 0.1 --steps 2"));
  const Outcome outcome = train_well(tiny("--checkpoint-dir c --steps 3 --resume --nesterov"));
  expect_contains(outcome.output, "changed     --lr 0.1, now 0.01; --nesterov false, now true\n");
  EXPECT_EQ(train_well(tiny("--checkpoint-dir c --steps 4 --resume --nesterov")).output.find("changed"),
            std::string::npos);
}

// Evaluations read data of their own, and may fail.
TEST_F(TrainCheckpoint, an_evaluation_that_fails_costs_nothing) {
  const std::string common = tiny("--epochs 2 --out run ");
  train_well(common + "--checkpoint-every 6 --eval-every 6");
  EXPECT_EQ(evaluated("run/metrics.jsonl"), (std::vector<int>{6, 12}));
  const std::string weights = hash("run/metrics.jsonl");
  // As after a crash in the evaluation of each of the epochs: the checkpoint is there, the evaluation's line is not.
  const std::string text = read_text(folder_ / "run/metrics.jsonl");
  fs::remove(folder_ / "run/checkpoints/step-0000000012.safetensors");
  write("run/metrics.jsonl", text.substr(0, text.find("{\"step\":6,\"epoch\":1,\"eval_loss\"")));
  train_well(common + "--checkpoint-every 6 --eval-every 6 --resume");
  EXPECT_EQ(evaluated("run/metrics.jsonl"), (std::vector<int>{6, 12}));
  EXPECT_EQ(hash("run/metrics.jsonl"), weights);
  const std::string last = read_text(folder_ / "run/metrics.jsonl");
  write("run/metrics.jsonl", last.substr(0, last.find("{\"step\":12,\"epoch\":2,\"eval_loss\"")));
  train_well(common + "--resume");  // all is trained, and not evaluated
  EXPECT_EQ(evaluated("run/metrics.jsonl"), (std::vector<int>{6, 12}));
  train_well(common + "--resume");  // all is done
  EXPECT_EQ(evaluated("run/metrics.jsonl"), (std::vector<int>{6, 12}));
}

TEST_F(TrainCheckpoint, ranks_agree_on_what_is_evaluated) {
  const std::string common = tiny("--epochs 1 --out run ");
  launch_well(2, common);
  EXPECT_EQ(evaluated("run/metrics.jsonl"), (std::vector<int>{3}));
  launch_well(2, common + "--resume");
  EXPECT_EQ(evaluated("run/metrics.jsonl"), (std::vector<int>{3}));
}

// The checkpoint is there while the evaluation goes on, so whatever ends that costs no update; it is made after a
// resume.
TEST_F(TrainCheckpoint, the_end_of_a_run_in_its_last_evaluation_costs_nothing) {
  const std::string common =
      "--model convnet --data synthetic --synthetic-samples 8000 --batch-size 1 --steps 2 --threads 1 --progress none "
      "--out run --overwrite=";
  const fs::path checkpoint = folder_ / "run/checkpoints/step-0000000002.safetensors";
  for (const int signal : {SIGKILL, SIGTERM}) {
    fs::remove(checkpoint);
    Outcome outcome;
    std::jthread runner([&] { outcome = train(common + "true & echo $! > '" + path("pid") + "'; wait $!"); });
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!fs::exists(checkpoint) && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    kill(std::stoi(read_text(path("pid"))), signal);
    runner.join();
    EXPECT_EQ(outcome.code, 128 + signal) << outcome.errors;
    EXPECT_EQ(losses("run/metrics.jsonl").size(), 2u);
    EXPECT_EQ(evaluated("run/metrics.jsonl"), std::vector<int>{});
    train_well(common + "false --resume");
    EXPECT_EQ(evaluated("run/metrics.jsonl"), (std::vector<int>{2}));
    EXPECT_EQ(metrics("run/metrics.jsonl").back()["done"], true);
  }
}

}  // namespace
}  // namespace tandem::train
