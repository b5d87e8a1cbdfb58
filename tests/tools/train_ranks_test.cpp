// `train` on several ranks, each a process: equal to one process, equal to each other, and how they meet.
#include "tests/tools/train_ranks.h"
#include "tandem/distributed/rendezvous.h"
#include "tandem/distributed/stores/tcp_store.h"
#include "tandem/distributed/stores/tcp_store_server.h"
#include "tests/tools/rank_processes.h"

namespace tandem::train {
namespace {

/// Model, ranks, micro-steps.
class ProcessOracle : public TrainRanks, public testing::WithParamInterface<std::tuple<const char*, int, int>> {};

// 3 W K B - 1 rows: two whole updates and one of which a row is missing.
TEST_P(ProcessOracle, ranks_train_as_one_process) {
  const auto [model, ranks, micro_steps] = GetParam();
  constexpr int kRows = 2;
  write_rows("rows.safetensors", 3 * ranks * micro_steps * kRows - 1);
  const std::pair<std::string, double> precisions[] = {
      {"fp64", 1e-10},
      {"fp32", 1e-5},
      {"bf16", 5e-2}};  // dlogits are rounded once more where 1 / rows is no power of 2
  for (const auto& [precision, bound] : precisions) {
    const std::string common = std::string(kCommon) + "--model " + model +
                               " --data tensors:rows.safetensors --precision " + precision + " --steps 3 ";
    const auto files = [](const std::string& name) {
      return "--save-weights " + name + ".w --save-grads " + name + ".g --metrics " + name + ".m ";
    };
    train_well(common + files("one") + "--batch-size " + std::to_string(ranks * micro_steps * kRows));
    launch_well(ranks, common + files("many") + "--batch-size " + std::to_string(kRows) + " --accumulation-steps " +
                           std::to_string(micro_steps));
    EXPECT_LE(largest_difference("one.w", "many.w"), bound) << precision;
    EXPECT_LE(largest_difference("one.g", "many.g"), bound) << precision;
    const auto one = losses("one.m"), many = losses("many.m");
    ASSERT_EQ(one.size(), 3u);
    ASSERT_EQ(many.size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(one[i], many[i], bound) << precision << ", step " << i + 1;
    for (int r = 1; r < ranks; ++r) EXPECT_EQ(hash("many.m"), hash("many.m.rank" + std::to_string(r)));
    const auto lines = metrics("many.m");
    const std::int64_t buckets = lines[0]["all_reduces"];
    EXPECT_GE(buckets, 1);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(lines[i]["all_reduces"], buckets);
  }
}

INSTANTIATE_TEST_SUITE_P(Train, ProcessOracle,
                         testing::Values(std::tuple{"mlp", 1, 3}, std::tuple{"mlp", 2, 1}, std::tuple{"mlp", 3, 2},
                                         std::tuple{"mlp", 4, 3}, std::tuple{"convnet", 2, 2},
                                         std::tuple{"convnet", 3, 1}),
                         [](const auto& tested) {
                           return fmt::format("{}_{}_ranks_{}_micro_steps", std::get<0>(tested.param),
                                              std::get<1>(tested.param), std::get<2>(tested.param));
                         });

struct Sample {
  const char* name;
  const char* model;
  int ranks, micro_steps;
  const char* flags;
  double bound = 1e-10;
};

/// A covering sample of DDP's options, which tests/distributed takes all combinations of with ranks that are threads.
class ProcessSample : public TrainRanks, public testing::WithParamInterface<Sample> {};

TEST_P(ProcessSample, ranks_train_as_one_process) {
  const Sample& sample = GetParam();
  write_rows("rows.safetensors", 3 * sample.ranks * sample.micro_steps * 2 - 1);
  const std::string common =
      std::string(kCommon) + "--data tensors:rows.safetensors --precision fp64 --steps 3 --model " + sample.model + " ";
  train_well(common + "--save-weights one.w --batch-size " + std::to_string(sample.ranks * sample.micro_steps * 2));
  launch_well(sample.ranks, common + sample.flags +
                                " --save-weights many.w --metrics many.m --batch-size 2 --accumulation-steps " +
                                std::to_string(sample.micro_steps));
  EXPECT_LE(largest_difference("one.w", "many.w"), sample.bound);
  for (int r = 1; r < sample.ranks; ++r) EXPECT_EQ(hash("many.m"), hash("many.m.rank" + std::to_string(r)));
}

INSTANTIATE_TEST_SUITE_P(
    Train, ProcessSample,
    testing::Values(
        Sample{"each_gradient_alone", "mlp", 3, 2, "--bucket-cap-mb 0"},
        Sample{"tiny_buckets_observed", "convnet", 2, 1, "--bucket-cap-mb 0.001 --bucket-order observed"},
        Sample{"one_bucket_no_overlap", "convnet", 3, 2, "--bucket-cap-mb 1e6 --first-bucket-mb 1e6 --no-overlap"},
        Sample{"find_unused", "mlp", 4, 1, "--find-unused-parameters"},
        Sample{"static_graph_observed", "convnet", 2, 3, "--static-graph --bucket-order observed"},
        Sample{"round_robin_of_three", "convnet", 3, 1, "--round-robin-groups 3 --bucket-cap-mb 0"},
        Sample{"round_robin_find_unused", "mlp", 2, 2, "--round-robin-groups 2 --find-unused-parameters --no-overlap"},
        Sample{"checked", "convnet", 2, 2, "--check-collectives --bucket-cap-mb 0.01"},
        Sample{"checked_round_robin", "mlp", 3, 1, "--check-collectives --round-robin-groups 2 --static-graph"},
        Sample{"bf16_on_the_wire", "mlp", 3, 2, "--comm-hook bf16", 1e-2},
        Sample{"fp16_on_the_wire", "convnet", 2, 1, "--comm-hook fp16 --bucket-cap-mb 1", 1e-3}),
    [](const auto& tested) { return std::string(tested.param.name); });

// 7 rows, 4 ranks of 2 rows: in the last micro-step three ranks have rows and one has none.
TEST_F(TrainRanks, a_rank_without_rows_takes_part) {
  write_rows("rows.safetensors", 11);
  const std::string common =
      std::string(kCommon) + "--model convnet --precision fp64 --data tensors:rows.safetensors --epochs 1 ";
  train_well(common + "--batch-size 8 --save-weights one.w");
  launch_well(4, common + "--batch-size 2 --save-weights many.w");
  EXPECT_LE(largest_difference("one.w", "many.w"), 1e-10);
  // Windows of two micro-steps of 2 x 2 rows: the last has one micro-step, of three rows.
  train_well(common + "--batch-size 4 --accumulation-steps 2 --save-weights one.w --metrics one.m");
  launch_well(2, common + "--batch-size 2 --accumulation-steps 2 --save-weights many.w --metrics many.m");
  EXPECT_EQ(losses("many.m").size(), 2u);
  EXPECT_LE(largest_difference("one.w", "many.w"), 1e-10);
}

// One row more than a whole micro-step has: at the epoch's end the first rank has one, of which ResNet's last maps have
// one value per channel, and the others have none.
TEST_F(TrainRanks, an_epoch_may_end_with_one_row_and_none) {
  for (const std::string model :
       {"resnet18 --stem imagenet --image-size 32 --classes 10", "convnet", "bert-tiny --seq-length 8"})
    for (const int ranks : {1, 2, 3}) {
      SCOPED_TRACE(model + " on " + std::to_string(ranks));
      const int batch = ranks == 3 ? 2 : 4, rows = batch * ranks + 1;
      const std::string arguments = "--model " + model + " --data synthetic --synthetic-samples " +
                                    std::to_string(rows) + " --batch-size " + std::to_string(batch) +
                                    " --epochs 2 --threads 1 --progress none --eval-every 0 --overwrite --out run "
                                    "--save-weights w --metrics m ";
      const Outcome outcome = ranks == 1 ? train(arguments) : launch(ranks, arguments);
      ASSERT_EQ(outcome.code, 0) << outcome.errors;
      EXPECT_EQ(losses("m").size(), 4U);
      for (int r = 1; r < ranks; ++r) EXPECT_EQ(hash("m"), hash("m.rank" + std::to_string(r)));
      EXPECT_FALSE(std::isnan(largest_difference("w", "w")));
      const auto weights = core::load_safetensors(folder_ / "w");
      if (!model.starts_with("resnet")) continue;
      EXPECT_EQ(weights.at("bn1.num_batches_tracked").item(), 4);
      EXPECT_EQ(weights.at("layer4.1.bn2.num_batches_tracked").item(), 2) << "one value says nothing of a variance";
    }
  expect_failure(
      "--model resnet18 --stem imagenet --data synthetic --synthetic-samples 4 --image-size 32 --batch-size 1 "
      "--progress none",
      1,
      "batch norm: training needs more than one value per channel, got x [1, 512, 1, 1]: use larger "
      "batches or larger images");
}

TEST_F(TrainRanks, evaluation_and_outputs_are_those_of_one_process) {
  write_rows("rows.safetensors", 23);
  train_well("--model mlp --data tensors:rows.safetensors --threads 1 --progress none --steps 1 --save-weights w");
  const std::string common =
      "--model mlp --data tensors:rows.safetensors --threads 1 --progress none --eval-only --init-weights w ";
  train_well(common + "--batch-size 23 --metrics one.m --save-outputs one.o");
  launch_well(3, common + "--batch-size 4 --metrics many.m --save-outputs many.o");
  EXPECT_LE(largest_difference("one.o", "many.o"), 1e-6);
  const auto one = metrics("one.m"), many = metrics("many.m");
  EXPECT_NEAR(one[0]["eval_loss"], many[0]["eval_loss"], 1e-6);
  EXPECT_EQ(one[0]["eval_accuracy"], many[0]["eval_accuracy"]);
  EXPECT_EQ(metrics("many.m.rank2")[0]["eval_accuracy"], one[0]["eval_accuracy"]);
}

TEST_F(TrainRanks, only_the_first_rank_talks_and_writes) {
  const Outcome outcome =
      launch_well(2, "--model mlp --data synthetic --synthetic-samples 64 --batch-size 8 --threads 1 --out run");
  EXPECT_NE(outcome.output.find("[0] done: 4 of 4 steps"), std::string::npos) << outcome.output;
  EXPECT_EQ(outcome.output.find("[1]"), std::string::npos) << outcome.output;
  EXPECT_EQ(outcome.errors, "");
  EXPECT_TRUE(fs::exists(folder_ / "run/checkpoints/step-0000000004.safetensors"));
}

TEST_F(TrainRanks, resume_continues_with_the_same_bits) {
  const std::string common =
      "--model convnet --data synthetic --synthetic-samples 46 --batch-size 4 --accumulation-steps 2 --threads 1 "
      "--progress none --optimizer adamw ";
  launch_well(2, common + "--steps 7 --out whole");
  launch_well(2, common + "--steps 4 --out parts --eval-every 0");
  launch_well(2, common + "--steps 7 --out parts --resume");
  EXPECT_EQ(hash("whole/metrics.jsonl"), hash("parts/metrics.jsonl"));
  EXPECT_EQ(losses("whole/metrics.jsonl"), losses("parts/metrics.jsonl"));
  const Outcome other = launch(3, common + "--steps 9 --out parts --resume");
  EXPECT_EQ(other.code, 1);
  EXPECT_NE(other.last_error.find("ranks 2, this one has 3"), std::string::npos) << other.errors;
}

class ByHand : public TrainRanks {
 protected:
  std::string tiny() const {
    return "--model mlp --data synthetic --synthetic-samples 64 --batch-size 4 --threads 1 --progress none "
           "--eval-every 0 ";
  }
  static std::string rank(int rank, int world) {
    return "'" TANDEM_TRAIN "' --rank " + std::to_string(rank) + " --world-size " + std::to_string(world) + " ";
  }
};

TEST_F(ByHand, ranks_meet_at_a_port_or_in_a_file_whichever_starts_first) {
  const std::string alone = tiny() + "--batch-size 8 ";
  train_well(alone + "--metrics alone");
  const HeldPort first, second;
  for (const std::string& init :
       {"tcp://127.0.0.1:" + first.str(), "tcp://localhost:" + second.str(), "file://" + path("meeting")}) {
    RankProcesses ranks(folder_);
    for (const int r : {1, 0}) ranks.start(rank(r, 2) + tiny() + "--metrics many --init " + init);
    for (const std::size_t i : {0u, 1u}) EXPECT_EQ(ranks.wait(i).code, 0) << init << "\n" << ranks.errors(i);
    EXPECT_EQ(hash("many"), hash("many.rank1"));
    const auto one = losses("alone"), many = losses("many");
    ASSERT_EQ(one.size(), many.size());
    for (std::size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(one[i], many[i], 1e-4);
  }
  EXPECT_FALSE(fs::exists(folder_ / "meeting"));  // who leaves last takes it away
}

TEST_F(ByHand, environments_of_other_starters_serve) {
  const std::string at = " MASTER_ADDR=127.0.0.1 MASTER_PORT=";
  const std::vector<std::string> starters{
      "RANK=R WORLD_SIZE=2 LOCAL_RANK=R", "OMPI_COMM_WORLD_RANK=R OMPI_COMM_WORLD_SIZE=2", "PMI_RANK=R PMI_SIZE=2",
      "SLURM_PROCID=R SLURM_NTASKS=2 SLURM_LOCALID=R SLURM_STEP_ID=0", "TORCHELASTIC_RUN_ID=x RANK=R WORLD_SIZE=2"};
  for (const std::string& starter : starters) {
    const HeldPort held;
    // Under torchrun its agent has the port that it tells, and ranks meet at the next one.
    const std::string port = std::to_string(held.number() - (starter.starts_with("TORCHELASTIC") ? 1 : 0));
    RankProcesses ranks(folder_);
    for (const char r : {'0', '1'}) {
      std::string environment = starter;
      for (std::size_t i = 0; (i = environment.find("=R", i)) != environment.npos;)
        environment.replace(i, 2, std::string("=") + r);
      ranks.start("env " + environment + at + port + " '" TANDEM_TRAIN "' " + tiny() + "--metrics m");
    }
    for (const std::size_t i : {0u, 1u}) EXPECT_EQ(ranks.wait(i).code, 0) << starter << "\n" << ranks.errors(i);
    EXPECT_EQ(hash("m"), hash("m.rank1"));
  }
}

// As under mpirun on one machine: the port is in a file of a folder that all know.
TEST_F(ByHand, open_mpi_on_one_machine_needs_no_address) {
  RankProcesses ranks(folder_);
  for (const std::string r : {"1", "0"})
    ranks.start(
        "env -u MASTER_ADDR -u MASTER_PORT OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=2 "
        "PMIX_NAMESPACE=77 PMIX_SERVER_TMPDIR='" +
        folder_.string() + "' OMPI_COMM_WORLD_RANK=" + r + " OMPI_COMM_WORLD_LOCAL_RANK=" + r + " '" TANDEM_TRAIN "' " +
        tiny() + "--metrics m");
  for (const std::size_t i : {0U, 1U}) EXPECT_EQ(ranks.wait(i).code, 0) << ranks.errors(i);
  EXPECT_EQ(hash("m"), hash("m.rank1"));
  EXPECT_FALSE(fs::exists(folder_ / "tandem-port-77"));
}

TEST_F(ByHand, what_does_not_fit_is_named_on_all_ranks) {
  const auto expect = [&](const std::string& first, const std::string& second, const std::string& cause, int code_0,
                          int code_1) {
    const HeldPort port;
    const std::string init = " --init tcp://127.0.0.1:" + port.str();
    RankProcesses ranks(folder_);
    ranks.start(first + init);
    // The second to say a world size is the one that notices.
    const distributed::Milliseconds patience(60000);
    EXPECT_TRUE(distributed::TcpStore("127.0.0.1", port.number(), patience).get(distributed::kWorldSizeKey, patience));
    ranks.start(second + init);
    EXPECT_EQ(ranks.wait(0).code, code_0) << ranks.errors(0);
    EXPECT_EQ(ranks.wait(1).code, code_1) << ranks.errors(1);
    for (const std::size_t i : {0u, 1u})
      EXPECT_NE(ranks.wait(i).last_error.find(cause), std::string::npos) << ranks.errors(i);
  };
  expect(rank(0, 2) + tiny(), rank(1, 2) + tiny() + "--lr 0.5", "rank 0 has --lr 0.01, rank 1 has --lr 0.5", 1, 1);
  expect(rank(0, 2) + tiny(), rank(1, 2) + tiny() + "--synthetic-samples 65", "--synthetic-samples", 1, 1);
  for (const std::string flag : {"--round-robin-groups 2", "--check-collectives", "--backend mpi", "--comm-hook bf16"})
    expect(rank(0, 2) + tiny(), rank(1, 2) + tiny() + flag, flag.substr(0, flag.find(' ')), 1, 1);
  expect(rank(0, 2) + tiny(), rank(1, 3) + tiny(), "world size", 3, 1);
}

TEST_F(ByHand, wrong_ranks_are_wrong_usage) {
  expect_failure("--rank 2 --world-size 2 " + tiny(), 2, "--rank");
  expect_failure("--rank 0 " + tiny(), 2, "--world-size");
  expect_failure("--rank 0 --world-size 2 " + tiny(), 2, "MASTER_ADDR");
  expect_failure("--rank 0 --world-size 2 --init udp://x " + tiny(), 2, "--init");
  expect_failure("--rank one --world-size 2 " + tiny(), 2, "--rank");
}

TEST_F(ByHand, a_port_in_use_and_a_missing_master_are_named) {
  const distributed::TcpStoreServer taken("127.0.0.1", 0);
  expect_failure("--rank 0 --world-size 2 --init tcp://127.0.0.1:" + std::to_string(taken.port()) + " " + tiny(), 1,
                 "in use");
  const HeldPort nobody;
  expect_failure("--rank 1 --world-size 2 --timeout-s 1 --init tcp://127.0.0.1:" + nobody.str() + " " + tiny(), 3,
                 "127.0.0.1");
  // So that MASTER_ADDR=localhost on rank 0 alone shows.
  expect_failure("--rank 0 --world-size 2 --timeout-s 1 --init tcp://127.0.0.1:" + nobody.str() + " " + tiny(), 3,
                 "within 1 s; rank 0 listens on 127.0.0.1:" + nobody.str() +
                     " (which no other machine reaches; if ranks run on others, set MASTER_ADDR on all ranks to");
  expect_failure("--rank 1 --world-size 2 --timeout-s 1 --init tcp://no-such-host.invalid:29500 " + tiny(), 3,
                 "no-such-host.invalid");
  // Its name may come into DNS later; meanwhile it is said what rank 0 waits for.
  const Outcome outcome =
      train("--rank 0 --world-size 2 --timeout-s 6 --init tcp://no-such-host.invalid:29500 " + tiny());
  EXPECT_TRUE(outcome.errors.starts_with("waiting for an address of the host 'no-such-host.invalid' ("))
      << outcome.errors;
  EXPECT_NE(outcome.last_error.find("the host 'no-such-host.invalid' has no address after "), std::string::npos);
  EXPECT_EQ(outcome.last_error.find("99 s"), std::string::npos) << outcome.last_error << ", not 5.999 s";
}

}  // namespace
}  // namespace tandem::train
