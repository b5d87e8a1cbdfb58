// README's C++, as it is printed there.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tandem/core/random.h"
#include "tandem/data/loader.h"
#include "tandem/distributed/distributed_data_parallel.h"
#include "tandem/distributed/world.h"
#include "tandem/models/mlp.h"
#include "tandem/nn/loss.h"
#include "tandem/optim/sgd.h"
#include "tests/data/temporary_folder.h"
#include "tests/docs/readme_training.h"
#include "tests/docs/text_files.h"

namespace tandem::docs {
namespace {

void expect_near(const std::vector<double>& got, const std::vector<double>& wanted, const std::string& what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], wanted[i], 1e-5 * (1 + std::abs(wanted[i]))) << what << ", parameter " << i;
}

// Each update's rows as one batch, and the mean of their losses.
std::vector<double> trained_on_whole_batches() {
  core::Generator random(/*seed=*/0);
  models::Mlp model(random);
  optim::Sgd sgd(model.parameters(), {.lr = 0.1, .momentum = 0.9});
  const auto dataset = make_dataset();
  for (std::int64_t first = 0; first < dataset->size(); first += kRows) {
    std::vector<std::int64_t> rows;
    for (std::int64_t row = first; row < std::min(first + kRows, dataset->size()); ++row) rows.push_back(row);
    const data::Batch batch = dataset->read(rows);
    nn::cross_entropy(model.forward(batch.input), batch.target).backward();
    sgd.step();
    sgd.zero_grad();
  }
  return fingerprint(model);
}

TEST(Readme, TheTrainingLoopTrainsOnTheMeanOverAllRows) {
  const auto dataset = make_dataset();
  for (const std::int64_t micro_batches : {1, 2, 3}) {
    data::Loader loader(dataset, data::Sampler({.samples = dataset->size(), .batch_size = kRows / micro_batches}),
                        {.accumulation_steps = micro_batches});
    loader.begin_epoch({});

#include "README/what_it_looks_like_1.cpp"

    expect_near(fingerprint(model), trained_on_whole_batches(), std::to_string(micro_batches) + " micro-batches");
  }
}

TEST(Readme, TheLoopWithRanksTrainsAsOneProcess) {
  const std::vector<double> wanted = trained_on_whole_batches();
  for (const int ranks : {1, 2, 3}) {
    const data::TemporaryFolder folder;
    const std::string result = (folder / "result").string(), errors = (folder / "errors").string();
    const std::string command = fmt::format("'{}' -n {} -- '{}' {} '{}' >'{}' 2>&1", TANDEM_LAUNCH, ranks,
                                            TANDEM_TRAIN_WITH_RANKS, kRows / ranks, result, errors);
    ASSERT_EQ(std::system(command.c_str()), 0) << text_of(errors);
    std::ifstream file(result);
    std::vector<double> got;
    for (double number; file >> number;) got.push_back(number);
    expect_near(got, wanted, std::to_string(ranks) + " ranks");
  }
}

// Two ranks train as one, with a checkpoint each epoch; a signal stops the run, and the same command resumes it.
TEST(Readme, AModelOfOnesOwnTrainsStopsAndResumes) {
  const data::TemporaryFolder folder;
  const auto run = [&](const std::string& name, const std::string& command) {
    std::filesystem::create_directories(folder.path() / name);
    const std::string log = (folder.path() / name / "log").string();
    const int code =
        std::system(("cd '" + (folder.path() / name).string() + "' && " + command + " >>log 2>&1").c_str());
    return std::pair{code, text_of(log)};
  };
  const auto metrics_of = [&](const std::string& name) {
    return text_of((folder.path() / name / "runs/mine/metrics.jsonl").string());
  };
  const std::string program = "'" TANDEM_TRAIN_OWN_MODEL "'", launched = "'" TANDEM_LAUNCH "' -n 2 -- " + program;
  const auto [code, log] = run("alone", program);
  EXPECT_EQ(code, 0) << log;
  EXPECT_NE(log.find("epoch 3, step 48: test loss"), log.npos) << log;
  EXPECT_NE(metrics_of("alone").find("\"done\":true"), std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "alone/runs/mine/checkpoints/step-0000000048.safetensors"));

  const auto hash_of = [](const std::string& metrics) {
    const std::size_t begin = metrics.rfind("\"weights_hash\":\"");
    return begin == metrics.npos ? "none" : metrics.substr(begin + 16, 16);
  };
  const auto [again, resumed_log] = run("alone", program);
  EXPECT_EQ(again, 0) << resumed_log;
  const std::string hash = hash_of(metrics_of("alone"));

  ASSERT_EQ(run("ranks", launched).first, 0) << run("ranks", "cat log").second;
  EXPECT_NE(metrics_of("ranks").find("\"done\":true"), std::string::npos);
  run("stopped", "{ " + launched + " & sleep 0.3; kill -INT $!; wait $!; }");
  EXPECT_EQ(run("stopped", launched).first, 0);
  EXPECT_EQ(hash_of(metrics_of("stopped")), hash_of(metrics_of("ranks"))) << "wherever it was stopped";
  const auto [other, refused] = run("alone", launched);
  EXPECT_NE(other, 0);
  EXPECT_NE(
      refused.find("mine: error: runs/mine/checkpoints/step-0000000048.safetensors: comes from a run with ranks 1, "
                   "this one has 2"),
      refused.npos)
      << refused;
  EXPECT_EQ(hash_of(metrics_of("alone")), hash);
}

TEST(Readme, NoSyncAccumulatesThisRanksOwnGradient) {
  distributed::run_as_threads(2, [](distributed::World& world) {
    core::Generator random(0), same(0);
    models::Mlp model(random), alone(same);
    distributed::DistributedDataParallel ddp(model, world.make_group("world"));
    const core::Tensor input = core::Tensor::full({1, 784}, 0.1 * (1 + world.rank()));
    const core::Tensor target = core::Tensor::from<std::int64_t>({world.rank()});
    nn::cross_entropy(alone.forward(input), target).backward();
    const auto loss = nn::cross_entropy(ddp.forward(input), target);

#include "README/what_it_looks_like_4.cpp"

    EXPECT_EQ(model.parameters()[0].grad().to_vector<float>(), alone.parameters()[0].grad().to_vector<float>());
    world.leave();
  });
}

TEST(Readme, TheOperatorIsTheFilesOwnText) {
  const std::string source = text_of(TANDEM_SOURCE "/autograd/ops/linear.cpp");
  const std::string shown = text_of(TANDEM_SNIPPETS "/README/what_it_looks_like_2.cpp");
  EXPECT_NE(source.find(shown.substr(shown.find('\n') + 1)), std::string::npos);  // behind the #line
}

}  // namespace
}  // namespace tandem::docs
