// How `train` starts and fails to start: exit codes, the last line, and that a failed start leaves nothing.
#include <zlib.h>

#include "tests/tools/train_process.h"
#include "tandem/train/created_folder.h"
#include "tandem/train/write_lock.h"

namespace tandem::train {
namespace {

constexpr const char* kTiny =
    "--model mlp --data synthetic --synthetic-samples 32 --batch-size 8 --threads 1 --progress none ";

std::string tiny(const std::string& more) { return kTiny + more; }

TEST_F(TrainTest, help_groups_all_flags) {
  const Outcome outcome = train_well("--help");
  for (const char* text :
       {"Model and data:", "Optimization:", "Length:", "Computation:", "The run:", "--batch-size", "Exit codes"})
    EXPECT_NE(outcome.output.find(text), std::string::npos) << text;
}

TEST_F(TrainTest, wrong_usage_is_exit_2) {
  expect_failure(tiny("--out run --batchsize 4"), 2, "unknown flag --batchsize; did you mean --batch-size?");
  expect_failure(tiny("--out run --model vgg"), 2, "--model 'vgg': must be one of mlp, mlp-large, convnet");
  expect_failure(tiny("--out run --optimizer sdg"), 2,
                 "--optimizer 'sdg': must be one of sgd, adam, adamw, lars, lamb");
  expect_failure(tiny("--out run --lr fast"), 2, "--lr 'fast': must be a number");
  expect_failure(tiny("--out run --config missing.json"), 2, "missing.json");
  write("broken.json", "{\"lr\": ");
  expect_failure(tiny("--out run --config broken.json"), 2, "broken.json: not valid JSON");
  write("key.json", "{\"learning-rate\": 1}");
  expect_failure(tiny("--out run --config key.json"), 2, "key.json: unknown key \"learning-rate\"");
  write("deep.json", "{\"lr\": " + std::string(200000, '[') + std::string(200000, ']') + "}");
  expect_failure(tiny("--out run --config deep.json"), 2, "deep.json: nested more than 8 deep");
  expect_failure(tiny("--out run --steps 99999999999"), 2, "--steps: 99999999999 updates, at most 2147483647");
}

TEST_F(TrainTest, missing_or_damaged_data_is_exit_1) {
  expect_failure("--model mlp --out run --data tensors:none.safetensors", 1, "none.safetensors");
  expect_failure("--model mlp --out run --data mnist --data-dir nowhere", 1, "nowhere");
  expect_failure("--model mlp --out run --data cifar10 --data-dir nowhere", 1, "nowhere");
  write("broken.safetensors", "nonsense");
  expect_failure("--model mlp --out run --data tensors:broken.safetensors", 1, "broken.safetensors");
  expect_failure(tiny("--out run --init-weights broken.safetensors"), 1, "broken.safetensors");
}

TEST_F(TrainTest, a_gzip_file_cut_short_is_exit_1_and_named) {
  fs::create_directory(folder_ / "data");
  const auto write_idx = [&](const std::string& name, const std::vector<unsigned char>& bytes) {
    const gzFile file = gzopen(path("data/" + name + ".gz").c_str(), "wb");
    gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
    gzclose(file);
  };
  std::vector<unsigned char> images{0, 0, 8, 3, 0, 0, 0, 4, 0, 0, 0, 28, 0, 0, 0, 28},
      labels{0, 0, 8, 1, 0, 0, 0, 4, 1, 2, 3, 4};
  for (std::uint32_t i = 0; i < 4 * 28 * 28; ++i)
    images.push_back(static_cast<unsigned char>(i * i * 2654435761u >> 13));
  for (const std::string split : {"train", "t10k"}) {
    write_idx(split + "-images-idx3-ubyte", images);
    write_idx(split + "-labels-idx1-ubyte", labels);
  }
  const std::string arguments = "--model mlp --data mnist --data-dir data --progress none --out run";
  train_well(arguments);
  fs::remove_all(folder_ / "run");
  const fs::path victim = folder_ / "data/train-images-idx3-ubyte.gz";
  fs::resize_file(victim, fs::file_size(victim) / 2);
  expect_failure(arguments, 1, "train-images-idx3-ubyte.gz");
}

TEST_F(TrainTest, model_and_data_must_fit) {
  core::Tensor input = core::Tensor::zeros({4, 3, 8, 8});
  core::save_safetensors(path("small.safetensors"),
                         {{"input", input}, {"target", core::Tensor::zeros({4}, {.dtype = core::DType::int64})}});
  expect_failure("--model mlp --data tensors:small.safetensors --out run", 1, "samples of shape [3, 8, 8]");
  input = core::Tensor::zeros({4, 1, 28, 28});
  core::save_safetensors(path("many.safetensors"),
                         {{"input", input}, {"target", core::Tensor::from<std::int64_t>({0, 1, 2, 10})}});
  expect_failure("--model mlp --data tensors:many.safetensors --out run", 1, "10 classes");
}

TEST_F(TrainTest, an_existing_run_is_not_overwritten_unless_asked) {
  train_well(tiny("--out run --steps 2"));
  const std::string first = read_text(folder_ / "run/metrics.jsonl");
  expect_failure(tiny("--out run --steps 3"), 1, "give --resume to continue the run, --overwrite to replace it");
  EXPECT_EQ(read_text(folder_ / "run/metrics.jsonl"), first);
  train_well(tiny("--out run --steps 3 --overwrite"));
  EXPECT_EQ(losses("run/metrics.jsonl").size(), 3u);
  EXPECT_EQ(metrics("run/metrics.jsonl").back()["steps"], 3);
  EXPECT_FALSE(fs::exists(folder_ / "run/checkpoints/step-0000000002.safetensors"));
}

TEST_F(TrainTest, what_cannot_be_written_is_found_before_the_first_update) {
  write("file", "");
  expect_failure(tiny("--out file"), 1, "file");
  expect_failure(tiny("--out file/run"), 1, "file/run");
  expect_failure(tiny("--out new/run --checkpoint-dir file/run"), 1, "file/run");
  for (const std::string flag : {"--save-weights", "--save-grads", "--save-outputs", "--metrics"})
    expect_failure(tiny("--out new/run " + flag + " missing/folder/x"), 1, flag + " missing/folder/x");
  expect_failure(tiny("--out new/run --save-weights ."), 1, "--save-weights");
}

TEST_F(TrainTest, what_is_no_folder_is_said_by_flag) {
  write("file", "");
  expect_failure(tiny("--out file"), 1, "--out file: cannot be made a folder");
  expect_failure(tiny("--checkpoint-dir file"), 1, "--checkpoint-dir file: cannot be made a folder");
  expect_failure(tiny("--checkpoint-dir file --resume"), 1, "--checkpoint-dir file: cannot be made a folder");
  const std::string long_name(300, 'a');
  expect_failure(tiny("--out " + long_name), 1, "cannot be made a folder: File name too long");
  expect_failure(tiny("--out /proc"), 1, "--out /proc: ");
  expect_failure(tiny("--out new --metrics ."), 1, "--metrics .: is not a regular file");
}

TEST_F(TrainTest, two_runs_cannot_write_into_one_folder) {
  fs::create_directory(folder_ / "run");
  {
    const WriteLock held(folder_ / "run");
    expect_failure(tiny("--out run"), 1, "--out run: another run is writing there");
    expect_failure(tiny("--out run --resume"), 1, "another run is writing there");
    expect_failure(tiny("--out other --checkpoint-dir run"), 1, "--checkpoint-dir run: another run is writing there");
    write("m.jsonl", "of a run that goes on");
    const WriteLock metrics(folder_ / "m.jsonl");
    expect_failure(tiny("--out other --metrics m.jsonl"), 1, "--metrics m.jsonl: another run is writing there");
    EXPECT_EQ(read_text(folder_ / "m.jsonl"), "of a run that goes on");
  }
  train_well(tiny("--out run --checkpoint-dir run"));
}

TEST_F(TrainTest, what_another_run_put_into_a_folder_stays) {
  {
    const CreatedFolder folder(folder_ / "a/b/run"), again(folder_ / "a/b/other");
    write("a/b/run/theirs", "");
  }
  EXPECT_TRUE(fs::exists(folder_ / "a/b/run/theirs"));
  EXPECT_FALSE(fs::exists(folder_ / "a/b/other"));
  { const CreatedFolder folder(folder_ / "c/d/run"); }
  EXPECT_FALSE(fs::exists(folder_ / "c"));
}

TEST_F(TrainTest, test_samples_of_another_shape_are_found_before_training) {
  fs::create_directory(folder_ / "data");
  const auto write_split = [&](const std::string& split, char side) {
    write("data/" + split + "-images-idx3-ubyte", std::string{0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, side, 0, 0, 0, side} +
                                                      std::string(static_cast<std::size_t>(2 * side * side), 'x'));
    write("data/" + split + "-labels-idx1-ubyte", std::string{0, 0, 8, 1, 0, 0, 0, 2, 1, 2});
  };
  write_split("train", 28);
  write_split("t10k", 14);
  expect_failure("--model mlp --data mnist --data-dir data --out run", 1,
                 "training samples have shape [1, 28, 28], test samples [1, 14, 14]");
}

TEST_F(TrainTest, a_closed_stderr_changes_no_exit_code) { EXPECT_EQ(train("--bad 2>&-").code, 2); }

TEST_F(TrainTest, results_may_go_into_the_run_folder) {
  train_well(tiny("--out a/b/run --save-weights a/b/run/weights.safetensors --save-grads a/b/run/grads.safetensors"));
  for (const char* name : {"config.json", "metrics.jsonl", "weights.safetensors", "grads.safetensors"})
    EXPECT_TRUE(fs::exists(folder_ / "a/b/run" / name)) << name;
}

TEST_F(TrainTest, config_json_of_a_run_gives_the_same_run) {
  train_well(
      tiny("--out one --optimizer adamw --lr 0.002 --accumulation-steps 2 --epochs 2 --seed 3 --clip-grad-norm 1"));
  train_well("--config one/config.json --out two");
  const auto one = nlohmann::json::parse(read_text(folder_ / "one/config.json"));
  auto two = nlohmann::json::parse(read_text(folder_ / "two/config.json"));
  EXPECT_EQ(two["outputs"]["out"], "two");
  two["outputs"]["out"] = "one";
  EXPECT_EQ(one, two);
  EXPECT_TRUE(one["facts"]["versions"].contains("tandem"));
  EXPECT_EQ(hash("one/metrics.jsonl"), hash("two/metrics.jsonl"));
}

TEST_F(TrainTest, a_diverged_run_stops_with_a_clear_error) {
  const Outcome outcome = train(tiny("--lr 1e30 --steps 9 --out run"));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.last_error.find("train: error: the loss is "), std::string::npos) << outcome.errors;
  EXPECT_NE(outcome.last_error.find("at step "), std::string::npos) << outcome.errors;
}

TEST_F(TrainTest, an_evaluation_that_is_not_finite_fails) {
  train_well(tiny("--steps 1 --save-weights w"));
  core::TensorMap weights = core::load_safetensors(path("w"));
  weights.at("fc2.bias").fill(NAN);
  core::save_safetensors(path("w"), {weights.begin(), weights.end()});
  const Outcome outcome = train(tiny("--eval-only --init-weights w"));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.last_error.find("the evaluation's loss is nan"), std::string::npos) << outcome.errors;
  // The last update's damage shows in the evaluation alone.
  EXPECT_EQ(train(tiny("--lr 1e300 --steps 1")).code, 1);
  // Without one nothing is saved either.
  expect_failure(tiny("--lr 1e300 --steps 1 --eval-every 0 --save-weights bad"), 1, "after the last update");
}

}  // namespace
}  // namespace tandem::train
