// The program `bench`, its subcommand `step`, run as a user does.
#include "tests/tools/train_process.h"

namespace tandem::train {
namespace {

class BenchStepTest : public TrainTest {
 protected:
  Outcome bench(const std::string& arguments) const { return shell("'" TANDEM_BENCH "' step " + arguments); }

  nlohmann::json measured(const std::string& arguments) const {
    const Outcome outcome = bench(arguments + " --threads 1 --warmup 1 --json step.json");
    EXPECT_EQ(outcome.code, 0) << arguments << "\n" << outcome.errors;
    return nlohmann::json::parse(read_text(folder_ / "step.json"));
  }

  void expect_wrong_usage(const std::string& arguments, const std::string& message) const {
    const Outcome outcome = bench(arguments);
    EXPECT_EQ(outcome.code, 2) << arguments;
    EXPECT_EQ(outcome.errors, "bench: error: " + message + "\n") << arguments;
  }
};

const nlohmann::json& row_of(const nlohmann::json& operators, const std::string& name) {
  for (const auto& row : operators.at("rows"))
    if (row.at("name") == name) return row;
  throw std::runtime_error("no row " + name);
}

TEST_F(BenchStepTest, AResNetByOperators) {
  const auto json = measured("--model resnet18 --image-size 32 --batch-size 2 --steps 2 --operators");
  EXPECT_EQ(json.at("model"), "resnet18");
  EXPECT_EQ(json.at("precision"), "fp32");
  EXPECT_EQ(json.at("optimizer"), "sgd");
  EXPECT_EQ(json.at("batch_size"), 2);
  for (const char* part : {"step", "forward", "backward", "optimizer"})
    EXPECT_GT(json.at(std::string(part) + "_ms").get<double>(), 0) << part;
  EXPECT_DOUBLE_EQ(json.at("samples_per_s").get<double>(), 2000 / json.at("step_ms").get<double>());
  EXPECT_GT(json.at("peak_rss_mb").get<double>(), json.at("start_rss_mb").get<double>());
  EXPECT_GT(json.at("tensor_peak_mb").get<double>(), 3 * 4 * 11689512. / (1 << 20)) << "weights, gradients, momentum";
  EXPECT_GT(json.at("allocations_per_step").get<double>(), 0);

  const auto& operators = json.at("operators");
  EXPECT_EQ(row_of(operators, "conv2d").at("calls"), 20);
  EXPECT_EQ(row_of(operators, "conv2d_backward_input").at("calls"), 19) << "the image needs no gradient";
  EXPECT_EQ(row_of(operators, "linear").at("flops"), 2.0 * 2 * 512 * 1000);
  EXPECT_EQ(row_of(operators, "linear").at("kind"), "operator");
  EXPECT_EQ(row_of(operators, "momentum_step").at("kind"), "operator");
  EXPECT_EQ(row_of(operators, "momentum_step").at("bytes"), 5 * 4.0 * 11689512);
  EXPECT_EQ(row_of(operators, "sgd").at("kind"), "phase");
  for (const char* phase : {"step", "forward", "backward"}) EXPECT_EQ(row_of(operators, phase).at("calls"), 1) << phase;
  double ms = 0, floor = 0, share = 0;
  for (const auto& row : operators.at("rows")) {
    EXPECT_GE(row.at("ms").get<double>(), 0) << row;
    ms += row.at("ms").get<double>();
    floor += row.at("floor_ms").get<double>();
    share += row.at("share").get<double>();
  }
  EXPECT_NEAR(ms, operators.at("step_ms").get<double>(), 1e-6 * ms);
  EXPECT_NEAR(floor, operators.at("floor_ms").get<double>(), 1e-6 * floor);
  EXPECT_NEAR(share, 1, 1e-6);
  EXPECT_GT(floor, 0);
}

TEST_F(BenchStepTest, ABertPredictsAllTokensOrTheMaskedOnes) {
  const std::string bert = "--model bert-tiny --batch-size 2 --seq-length 20 --steps 1 --operators";
  const auto everywhere = measured(bert), masked = measured(bert + " --predict masked");
  EXPECT_EQ(everywhere.at("optimizer"), "adamw");
  EXPECT_GT(everywhere.at("last_loss").get<double>(), 9) << "log(30522) = 10.3";
  const double vocabulary = 30522, hidden = 128;
  const double flops_of_all = row_of(everywhere.at("operators"), "linear").at("flops");
  const double flops_of_masked = row_of(masked.at("operators"), "linear").at("flops");
  // 15 % of 40 positions are 6: the head's transform and decoder have 34 rows less.
  EXPECT_EQ(flops_of_all - flops_of_masked, 2 * 34 * (hidden * hidden + vocabulary * hidden));
  EXPECT_EQ(row_of(masked.at("operators"), "attention").at("calls"), 2);
}

TEST_F(BenchStepTest, RecomputeIsTheSameStepInLessMemory) {
  for (const std::string model :
       {"--model resnet18 --image-size 32 --batch-size 4", "--model bert-tiny --seq-length 64"}) {
    const auto kept = measured(model + " --steps 1"), again = measured(model + " --steps 1 --recompute");
    EXPECT_EQ(again.at("recompute"), true);
    EXPECT_EQ(again.at("last_loss"), kept.at("last_loss")) << model;
    EXPECT_LT(again.at("tensor_peak_mb"), kept.at("tensor_peak_mb")) << model;
  }
}

TEST_F(BenchStepTest, WrongUsageIsOneLine) {
  expect_wrong_usage("--model bert-tiny --image-size 32",
                     "--image-size: bert-tiny takes no images of any size, only ResNets do");
  expect_wrong_usage("--model convnet --image-size 32",
                     "--image-size: convnet takes no images of any size, only ResNets do");
  expect_wrong_usage("--model mlp --seq-length 8", "--seq-length: mlp takes no sequences, only BERTs do");
  expect_wrong_usage("--model bert-tiny --seq-length 513",
                     "--seq-length: 513 is more than the 512 positions of bert-tiny");
  expect_wrong_usage("--model resnet18 --predict all", "--predict: resnet18 predicts no tokens, only BERTs do");
  expect_wrong_usage("--model mlp --recompute",
                     "--recompute: mlp has nothing to compute again, only ResNets and BERTs have");
  expect_wrong_usage("--model bert-tiny --momentum 0.9", "--momentum: adamw has none, only sgd and lars have");
  expect_wrong_usage("--model bert-tiny --predict some", "--predict: some not in {all,masked}");
  expect_wrong_usage("--model mlp --precision fp8", "--precision: fp8 not in {fp32,bf16}");
  expect_wrong_usage("--ddp --operators", "--operators excludes --ddp");
  const Outcome outcome = bench("--model resnet19");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_TRUE(outcome.errors.starts_with("bench: error: --model: resnet19 not in {tiny-mlp,mlp,")) << outcome.errors;
}

TEST_F(BenchStepTest, RanksUnderTheLauncherAreOneRunAndTheFirstReports) {
  const std::string launch = "'" TANDEM_LAUNCH "' -n 2 -- '" TANDEM_BENCH "' ";
  const Outcome together = shell(launch + "step --ddp --model tiny-mlp --steps 2 --warmup 1 --json step.json");
  EXPECT_EQ(together.code, 0) << together.output << together.errors;
  EXPECT_EQ(together.output.find("[1]"), std::string::npos) << together.output;
  EXPECT_NE(together.output.find("under DDP"), std::string::npos) << together.output;
  EXPECT_EQ(nlohmann::json::parse(read_text(folder_ / "step.json")).at("world_size"), 2);
  for (const auto& [arguments, advice] :
       {std::pair{"step --model tiny-mlp --steps 1",
                  "step: measures one process, but this is one of 2 (RANK is 0): "
                  "leave the launcher out, or give --ddp"},
        std::pair{"ops", "ops: measures one process, but this is one of 2 (RANK is 0): leave the launcher out"}}) {
    const Outcome apart = shell(launch + arguments);
    EXPECT_EQ(apart.code, 2) << apart.errors;
    EXPECT_NE(apart.errors.find(advice), std::string::npos) << apart.errors;
  }
}

TEST_F(BenchStepTest, DdpOnOneRankComputesTheSame) {
  const auto json = measured("--ddp --model bert-tiny --batch-size 1 --seq-length 8 --steps 2");
  for (const char* part : {"bare_step_ms", "ddp_step_ms", "ddp_backward_ms"})
    EXPECT_GT(json.at(part).get<double>(), 0) << part;
}

}  // namespace
}  // namespace tandem::train
