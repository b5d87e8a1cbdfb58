// What a run of `train` computes: the same bits again, after a resume too, and accumulation equal to large batches.
#include <csignal>
#include <thread>

#include "tandem/core/parallel.h"
#include "tandem/nn/dropout.h"
#include "tests/tools/train_process.h"
#include "tandem/train/checkpoint.h"
#include "tandem/train/metrics.h"

namespace tandem::train {
namespace {

std::string tiny(const std::string& model, const std::string& more) {
  return "--model " + model + " --data synthetic --synthetic-samples 22 --batch-size 4 --threads 1 --progress none " +
         more;
}

TEST_F(TrainTest, metrics_have_the_lines_that_are_promised) {
  train_well(tiny("mlp", "--epochs 2 --metrics m.jsonl --clip-grad-norm 0.5 --lr-schedule linear --lr 0.1"));
  const auto lines = metrics("m.jsonl");
  ASSERT_EQ(lines.size(), 15u);  // two epochs of 6 updates and an evaluation; done
  for (const char* key : {"step", "epoch", "loss", "lr", "samples_per_s", "step_ms", "data_ms", "forward_ms",
                          "backward_ms", "optimizer_ms", "grad_norm"})
    EXPECT_TRUE(lines[0].contains(key)) << key;
  EXPECT_EQ(lines[0]["step"], 1);
  EXPECT_EQ(lines[0]["epoch"], 1);
  EXPECT_EQ(lines[0]["lr"], 0.1);
  EXPECT_GT(lines[0]["lr"], lines[1]["lr"]);
  EXPECT_TRUE(lines[6].contains("eval_loss") && lines[6].contains("eval_accuracy"));
  EXPECT_EQ(lines[6]["step"], 6);
  EXPECT_EQ(lines[13]["step"], 12);
  double before = 1.7e9;  // seconds since 1970: long after the year 2020
  for (const auto& line : lines) {
    EXPECT_GE(line["time"], before) << line;
    before = line["time"];
  }
  EXPECT_LT(before, 1e11);  // not milliseconds
  EXPECT_EQ(lines[6]["epoch"], 1);
  EXPECT_EQ(lines[7]["epoch"], 2);
  EXPECT_EQ(lines[14]["done"], true);
  EXPECT_EQ(lines[14]["steps"], 12);
  EXPECT_GT(lines[14]["peak_rss_mb"], 1);
  EXPECT_EQ(lines[14]["weights_hash"].get<std::string>().size(), 16u);
}

TEST_F(TrainTest, the_last_loss_is_told_however_short_the_run_is) {
  const std::string run = "--model mlp --data synthetic --synthetic-samples 22 --batch-size 4 --threads 1 --steps 3 ";
  const std::string plain = train_well(run + "--eval-every 0 --progress plain").output;
  EXPECT_NE(plain.find("\nstep 3/3  epoch 1  loss "), std::string::npos) << plain;
  const std::string terminal = train_well(run + "--eval-every 0 --progress terminal").output;
  const std::size_t last = terminal.find("\rstep 3/3  epoch 1  loss ");
  ASSERT_NE(last, std::string::npos) << terminal;
  EXPECT_EQ(terminal.find('\r', last + 1), std::string::npos) << terminal;  // it stays
}

TEST_F(TrainTest, steps_and_epochs_stop_at_the_first_and_eval_every_counts_updates) {
  train_well(tiny("mlp", "--steps 8 --eval-every 3 --metrics m.jsonl"));  // into the second epoch
  EXPECT_EQ(losses("m.jsonl").size(), 8u);
  const auto lines = metrics("m.jsonl");
  ASSERT_EQ(lines.size(), 12u);  // evaluations after 3, 6, and 8, the end
  EXPECT_TRUE(lines[3].contains("eval_loss") && lines[7].contains("eval_loss") && lines[10].contains("eval_loss"));
  train_well(tiny("mlp", "--steps 8 --epochs 1 --metrics m.jsonl --eval-every 0"));
  EXPECT_EQ(metrics("m.jsonl").size(), 7u);
  train_well(tiny("mlp", "--steps 2 --epochs 9 --metrics m.jsonl --eval-every 0"));
  EXPECT_EQ(metrics("m.jsonl").size(), 3u);
}

TEST_F(TrainTest, the_same_seed_gives_the_same_bits_and_another_one_others) {
  for (const std::string name : {"a", "b"}) train_well(tiny("convnet", "--steps 3 --metrics " + name));
  train_well(tiny("convnet", "--steps 3 --seed 1 --metrics c"));
  EXPECT_EQ(losses("a"), losses("b"));
  EXPECT_EQ(hash("a"), hash("b"));
  EXPECT_NE(hash("a"), hash("c"));
}

TEST_F(TrainTest, one_thread_and_two_see_the_same_samples_and_masks) {
  const std::string more = "--steps 7 --metrics ";
  train_well(tiny("convnet", more + "one"));
  train_well(tiny("convnet", "--threads 2 " + more + "two"));
  const auto one = losses("one"), two = losses("two");
  ASSERT_EQ(one.size(), 7u);
  ASSERT_EQ(two.size(), 7u);
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(one[i], two[i], 1e-4) << "step " << i + 1;
}

TEST(Dropout, masks_do_not_depend_on_threads) {
  nn::Dropout dropout(0.3);
  const core::Tensor ones = core::Tensor::full({64, 9216}, 1);
  std::vector<std::vector<float>> results;
  for (const int threads : {1, 2, 3}) {
    core::set_num_threads(threads);
    dropout.set_random_context({.seed = 5, .epoch = 1, .step = 20, .shard = 2});
    results.push_back(dropout.forward(ones).data().to_vector<float>());
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

/// Model, optimizer.
class Resume : public TrainTest, public testing::WithParamInterface<std::pair<const char*, const char*>> {};

// The run is left in the middle of the second epoch, with a window that has more than one micro-step.
TEST_P(Resume, continues_with_the_same_bits) {
  const auto& [model, optimizer] = GetParam();
  const std::string common =
      tiny(model, std::string("--accumulation-steps 2 --dropout 0.4 --lr-schedule step --lr-step-size 3 ") +
                      "--warmup-steps 2 --lr 0.01 --optimizer " + optimizer + " ");
  train_well(common + "--steps 7 --out whole --save-weights whole.safetensors");
  train_well(common + "--steps 4 --out parts --eval-every 0");
  train_well(common + "--steps 7 --out parts --resume --save-weights parts.safetensors");
  EXPECT_TRUE(read_text(folder_ / "whole.safetensors") == read_text(folder_ / "parts.safetensors"));
  EXPECT_EQ(hash("whole/metrics.jsonl"), hash("parts/metrics.jsonl"));
  EXPECT_EQ(losses("whole/metrics.jsonl"), losses("parts/metrics.jsonl"));
}

INSTANTIATE_TEST_SUITE_P(Train, Resume,
                         testing::Values(std::pair{"mlp", "sgd"}, std::pair{"mlp", "adamw"}, std::pair{"mlp", "lars"},
                                         std::pair{"mlp", "lamb"}, std::pair{"convnet", "sgd"},
                                         std::pair{"convnet", "adam"}),
                         [](const auto& tested) {
                           return fmt::format("{}_{}", tested.param.first, tested.param.second);
                         });

TEST_F(TrainTest, lars_and_lamb_learn) {
  for (const std::string optimizer : {"lars --lr 5", "lamb --lr 0.01"}) {
    train_well(
        "--model mlp --data synthetic --synthetic-samples 600 --epochs 2 --batch-size 20 --threads 1 --progress none "
        "--metrics m.jsonl --optimizer " +
        optimizer);
    const auto lines = metrics("m.jsonl");
    EXPECT_GT(lines[lines.size() - 2]["eval_accuracy"], 0.9) << optimizer;
  }
}

// One update: what does not decay is as without weight decay, to the bit.
TEST_F(TrainTest, decay_pulls_on_all_parameters_or_on_matrices) {
  for (const std::string optimizer : {"sgd", "adamw"}) {
    const std::string common = tiny("mlp", "--steps 1 --eval-every 0 --lr 0.1 --optimizer " + optimizer);
    train_well(common + " --weight-decay 0 --save-weights none");
    train_well(common + " --weight-decay 0.1 --save-weights all");
    train_well(common + " --weight-decay 0.1 --decay matrices --save-weights matrices");
    const auto load = [&](const std::string& file, const std::string& name) {
      return core::load_safetensors(folder_ / file).at(name).to_vector<float>();
    };
    for (const std::string name : {"fc1.bias", "fc2.bias"}) {
      EXPECT_EQ(load("matrices", name), load("none", name)) << optimizer;
      EXPECT_NE(load("all", name), load("none", name)) << optimizer;
    }
    for (const std::string name : {"fc1.weight", "fc2.weight"}) EXPECT_EQ(load("matrices", name), load("all", name));
  }
}

TEST_F(TrainTest, a_run_can_go_on_with_another_decay) {
  const std::string common = tiny("mlp", "--eval-every 0 --weight-decay 0.1 --checkpoint-dir c --save-weights ");
  train_well(common + "first --steps 3");
  const Outcome outcome = train_well(common + "second --steps 4 --decay matrices --resume");
  EXPECT_NE(outcome.output.find("weight decay 0.1 of matrices only"), std::string::npos) << outcome.output;
  EXPECT_GT(largest_difference("first", "second"), 0);
  EXPECT_LT(largest_difference("first", "second"), 0.1);
  // Matrices decay in both: with their own velocities they go on as if nothing had been changed.
  train_well(tiny("mlp", "--eval-every 0 --weight-decay 0.1 --steps 4 --save-weights whole"));
  const auto matrix = [&](const std::string& file) {
    return core::load_safetensors(folder_ / file).at("fc2.weight").to_vector<float>();
  };
  EXPECT_EQ(matrix("second"), matrix("whole"));
}

TEST_F(TrainTest, resume_begins_where_there_is_no_checkpoint_and_refuses_another_run) {
  const std::string folder = "--checkpoint-dir c --checkpoint-every 2 ";
  EXPECT_NE(train_well(tiny("mlp", folder + "--steps 3 --resume")).output.find("there is no checkpoint yet"),
            std::string::npos);
  EXPECT_TRUE(fs::exists(folder_ / "c/step-0000000002.safetensors"));
  EXPECT_TRUE(fs::exists(folder_ / "c/step-0000000003.safetensors"));
  expect_failure(tiny("mlp", folder + "--steps 5"), 1, "holds the checkpoints of a run");
  expect_failure(tiny("mlp", folder + "--steps 5 --resume --batch-size 3"), 1, "--batch-size 4, this one has 3");
  expect_failure(tiny("mlp", folder + "--steps 5 --resume --seed 8"), 1, "--seed 0, this one has 8");
  expect_failure(tiny("convnet", folder + "--steps 5 --resume"), 1, "--model mlp, this one has convnet");
  train_well(tiny("mlp", folder + "--steps 9 --resume"));
  EXPECT_FALSE(fs::exists(folder_ / "c/step-0000000003.safetensors"));  // the newest three: 6, 8, 9
  EXPECT_TRUE(fs::exists(folder_ / "c/step-0000000006.safetensors"));
}

TEST_F(TrainTest, resume_refuses_fewer_updates_than_were_made) {
  train_well(tiny("mlp", "--checkpoint-dir c --steps 5"));
  expect_failure(tiny("mlp", "--checkpoint-dir c --steps 4 --resume"), 1,
                 "has 5 updates, --epochs and --steps ask for 4");
  train_well(tiny("mlp", "--checkpoint-dir c --steps 5 --resume"));  // nothing is left to do
}

TEST_F(TrainTest, resume_refuses_a_position_that_does_not_fit) {
  const std::string arguments = tiny("mlp", "--checkpoint-dir c --steps 8 ");  // six updates an epoch
  train_well(arguments);
  const std::string file = path("c/step-0000000008.safetensors");
  core::Metadata metadata;
  const core::TensorMap good = core::load_safetensors(file, &metadata);
  const auto expect_refused = [&](const std::string& name, std::int64_t value, const std::string& cause) {
    core::TensorMap bad = good;
    bad.at(name) = core::Tensor::from<std::int64_t>({value}, {});
    metadata["checksum"] = checksum({metadata, bad});
    core::save_safetensors(file, {bad.begin(), bad.end()}, metadata);
    expect_failure(arguments + "--steps 20 --resume", 1, cause);
  };
  expect_refused("schedule.step", -1, "\"schedule.step\" is -1");
  expect_refused("schedule.step", std::int64_t{1} << 40, "\"schedule.step\" is 1099511627776");
  expect_refused("schedule.step", 9, "9 updates do not end at epoch 1, micro-step 2");
  expect_refused("sampler.epoch", std::int64_t{1} << 32, "\"sampler.epoch\" is 4294967296");
  expect_refused("sampler.epoch", 0, "8 updates do not end at epoch 0, micro-step 2");
  expect_refused("sampler.micro_step", 7, "micro-step 7 is none of an epoch's");
  metadata["checksum"] = checksum({metadata, good});
  core::save_safetensors(file, {good.begin(), good.end()}, metadata);
  train_well(arguments + "--steps 20 --resume");
}

TEST_F(TrainTest, only_checkpoints_are_taken_for_such_and_unfinished_ones_go) {
  fs::create_directory(folder_ / "c");
  for (const char* name : {"step-zero.safetensors", "step-9999999999.safetensors.bak", "notes.tmp",
                           "step-0000000001.safetensors.123-4.tmp"})
    write(std::string("c/") + name, "x");
  train_well(tiny("mlp", "--checkpoint-dir c --steps 5 --checkpoint-every 1"));
  train_well(tiny("mlp", "--checkpoint-dir c --steps 6 --overwrite"));
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder_ / "c")) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"notes.tmp", "step-0000000006.safetensors",
                                             "step-9999999999.safetensors.bak", "step-zero.safetensors"}));
}

TEST(Metrics, a_resumed_run_drops_what_came_after_the_checkpoint) {
  const std::string kept =
      "{\"step\":1,\"loss\":2}\n{\"step\":2,\"loss\":1}\n{\"step\":2,\"epoch\":1,\"eval_loss\":1}\n";
  EXPECT_EQ(metrics_until(kept + "{\"step\":3,\"loss\":1}\n{\"step\":3,\"epoch\":2,\"eval_loss\":1}\n", 2), kept);
  EXPECT_EQ(last_evaluation(kept), 2);
  EXPECT_EQ(last_evaluation("{\"step\":1,\"loss\":2}\n"), -1);
  EXPECT_EQ(metrics_until(kept + "{\"done\":true}\n", 9), kept);
  EXPECT_EQ(metrics_until(kept + "{\"step\":3,\"lo", 9), kept);
}

/// Model, precision, K.
class Accumulation : public TrainTest, public testing::WithParamInterface<std::tuple<const char*, const char*, int>> {};

// K micro-steps of B rows equal one batch of K B rows: two full windows and a short one, three steps of SGD.
TEST_P(Accumulation, equals_one_large_batch) {
  const auto& [model, precision, k] = GetParam();
  constexpr int kBatch = 2;
  const int window = k * kBatch, rows = 2 * window + window - 1;
  write_rows("rows.safetensors", rows);
  const std::string common =
      std::string("--data tensors:rows.safetensors --progress none --dropout 0 --lr 0.05 --momentum 0.9 ") +
      "--weight-decay 0.01 --eval-every 0 --model " + model + " --precision " + precision + " ";
  const auto run = [&](const std::string& name, int batch, int steps) {
    train_well(common + "--metrics " + name + ".jsonl --save-weights " + name + ".w --save-grads " + name +
               ".g --batch-size " + std::to_string(batch) + " --accumulation-steps " + std::to_string(steps));
  };
  run("large", window, 1);
  run("parts", kBatch, k);
  if (k > 1) run("single", 1, window);
  const bool fp64 = std::string(precision) == "fp64";
  const double tolerance = fp64 ? 1e-10 : 1e-5;
  ASSERT_EQ(losses("large.jsonl").size(), 3u);
  for (const std::string name : {"parts", "single"}) {
    if (!fs::exists(folder_ / (name + ".w"))) continue;
    EXPECT_LE(largest_difference("large.w", name + ".w"), tolerance) << name;
    EXPECT_LE(largest_difference("large.g", name + ".g"), tolerance) << name;
    const auto large = losses("large.jsonl"), parts = losses(name + ".jsonl");
    ASSERT_EQ(parts.size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(large[i], parts[i], tolerance);
  }
  // Not because nothing moved.
  train_well(common + "--batch-size 1 --steps 1 --lr 0 --save-weights first.w");
  EXPECT_GT(largest_difference("large.w", "first.w"), 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Train, Accumulation,
                         testing::Combine(testing::Values("mlp", "convnet"), testing::Values("fp32", "fp64"),
                                          testing::Values(1, 2, 3)),
                         [](const auto& tested) {
                           return fmt::format("{}_{}_{}_micro_steps", std::get<0>(tested.param),
                                              std::get<1>(tested.param), std::get<2>(tested.param));
                         });

TEST_F(TrainTest, bf16_keeps_weights_and_writes_outputs_in_float32) {
  const auto first_outputs = [&](const std::string& precision) {
    train_well(tiny("mlp", "--steps 3 --save-weights " + precision + ".w --save-outputs " + precision +
                               ".o --precision " + precision));
    for (const auto& [name, tensor] : core::load_safetensors(folder_ / (precision + ".w")))
      EXPECT_EQ(tensor.dtype(), core::DType::float32) << name;
    const core::Tensor outputs = core::load_safetensors(folder_ / (precision + ".o")).at("output");
    EXPECT_EQ(outputs.dtype(), core::DType::float32);
    return outputs.to_vector<double>();
  };
  const auto exact = first_outputs("fp32"), rounded = first_outputs("bf16");
  EXPECT_NE(exact, rounded);
  for (std::size_t i = 0; i < exact.size(); ++i) EXPECT_NEAR(exact[i], rounded[i], 0.1);
}

TEST_F(TrainTest, weights_saved_and_loaded_evaluate_alike) {
  train_well(tiny("mlp", "--steps 5 --metrics t.jsonl --save-weights w --save-outputs o1"));
  train_well(tiny("mlp", "--eval-only --init-weights w --metrics e.jsonl --save-outputs o2 --out eval"));
  const auto trained = metrics("t.jsonl"), evaluated = metrics("e.jsonl");
  ASSERT_EQ(evaluated.size(), 2u);  // an evaluation, done
  EXPECT_EQ(evaluated[0]["eval_loss"], trained[5]["eval_loss"]);
  EXPECT_EQ(evaluated[0]["eval_accuracy"], trained[5]["eval_accuracy"]);
  EXPECT_EQ(evaluated[1]["steps"], 0);
  EXPECT_EQ(hash("t.jsonl"), hash("e.jsonl"));
  EXPECT_TRUE(read_text(folder_ / "o1") == read_text(folder_ / "o2"));
  EXPECT_EQ(core::load_safetensors(folder_ / "o1").at("output").shape(), (core::Shape{5, 10}));  // a quarter of 22
}

TEST_F(TrainTest, a_checkpoint_can_be_evaluated) {
  const std::string folder = "--checkpoint-dir c ";
  train_well(tiny("mlp", folder + "--steps 5 --metrics t.jsonl"));
  const auto before = listing();
  train_well(tiny("mlp", folder + "--resume --eval-only --metrics e.jsonl"));
  EXPECT_EQ(metrics("e.jsonl")[0]["eval_loss"], metrics("t.jsonl")[5]["eval_loss"]);
  EXPECT_EQ(metrics("e.jsonl").back()["steps"], 5);
  EXPECT_EQ(listing().size(), before.size() + 1);
  expect_failure(tiny("mlp", "--checkpoint-dir none --resume --eval-only"), 1, "no checkpoint in none");
}

TEST_F(TrainTest, the_model_learns) {
  train_well(
      "--model mlp --data synthetic --synthetic-samples 600 --epochs 2 --batch-size 20 --progress none --metrics "
      "m.jsonl");
  const auto lines = metrics("m.jsonl");
  EXPECT_GT(lines[lines.size() - 2]["eval_accuracy"], 0.9);
}

TEST_F(TrainTest, a_signal_ends_the_run_after_its_update_with_a_checkpoint) {
  const std::string arguments = tiny("mlp", "--epochs 1000000 --eval-every 0 --out run --save-weights w");
  Outcome outcome;
  std::jthread runner([&] { outcome = train(arguments + " & echo $! > '" + path("pid") + "'; wait $!"); });
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  const auto has_begun = [&] { return lines_so_far("run/metrics.jsonl") > 3; };
  while (!has_begun() && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ASSERT_TRUE(has_begun());
  kill(std::stoi(read_text(path("pid"))), SIGTERM);
  runner.join();
  EXPECT_EQ(outcome.code, 128 + SIGTERM);
  EXPECT_TRUE(outcome.last_error.starts_with("train: error: interrupted after step ")) << outcome.errors;
  const auto last = metrics("run/metrics.jsonl").back();
  EXPECT_EQ(last["done"], false);
  EXPECT_EQ(losses("run/metrics.jsonl").size(), last["steps"].get<std::size_t>());
  EXPECT_TRUE(
      fs::exists(folder_ / "run/checkpoints" / fmt::format("step-{:010}.safetensors", last["steps"].get<int>())));
  EXPECT_TRUE(fs::exists(folder_ / "w"));
}

}  // namespace
}  // namespace tandem::train
