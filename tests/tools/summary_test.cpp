// --summary: what it prints, that it is what training does, and that it leaves nothing.
#include <tuple>

#include "tandem/distributed/bucket_plan.h"
#include "tests/tools/train_ranks.h"

namespace tandem::train {
namespace {

constexpr const char* kSynthetic = "--summary --data synthetic --synthetic-samples 128 --threads 1 ";

void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_PRED_FORMAT2(testing::IsSubstring, part, text);
}

std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const std::size_t from = text.find(begin), to = text.find(end, from);
  EXPECT_TRUE(from != text.npos && to != text.npos) << text;
  return text.substr(from, to - from);
}

class Summary : public TrainRanks {};

TEST_F(Summary, of_mlp_line_by_line) {
  const Outcome outcome = train_well(std::string(kSynthetic) + "--model mlp --batch-size 32 --optimizer adamw");
  expect_contains(outcome.output, "train\n  model       mlp, 203,530 parameters\n");
  expect_contains(outcome.output,
                  "\nlayers: outputs for a batch of 32, multiply-adds of one sample\n"
                  "  layer  operator       output     parameters  multiply-adds\n"
                  "  fc1    linear         [32, 256]     200,960        200,704\n"
                  "         relu           [32, 256]           -              -\n"
                  "  fc2    linear         [32, 10]        2,570          2,560\n"
                  "         cross_entropy  []                  -              -\n"
                  "  total                               203,530        203,264\n"
                  "\n"
                  "memory of a rank\n"
                  "  parameters        795.0 KiB\n"
                  "  gradients         795.1 KiB  they lie in the buckets, which are sent as they are\n"
                  "  optimizer state     1.6 MiB  exp_avg, exp_avg_sq\n"
                  "  buffers                 0 B\n");
  expect_contains(outcome.output,
                  "\nbuckets of gradients, in order of reduction: closed once they hold 25 MiB, the first 1 MiB\n"
                  "  bucket    bytes  parameters  first     last\n"
                  "       0  814,144           4  fc2.bias  fc1.weight\n");
  EXPECT_EQ(outcome.errors, "");
}

TEST_F(Summary, of_convnet) {
  const Outcome outcome = train_well(std::string(kSynthetic) + "--model convnet --batch-size 8 --momentum 0");
  expect_contains(outcome.output, "  conv1  conv2d         [8, 32, 26, 26]         320        194,688\n");
  expect_contains(outcome.output, "  conv2  conv2d         [8, 64, 24, 24]      18,496     10,616,832\n");
  expect_contains(outcome.output, "         max_pool2d     [8, 64, 12, 12]           -              -\n");
  expect_contains(outcome.output, "  total                                   1,199,882     11,992,448\n");
  expect_contains(outcome.output, "  optimizer state        0 B\n");
  expect_contains(outcome.output, "measured with 8 samples\n");
}

// What stays is what rules and the output hold: x [N, 784], fc1's output after ReLU [N, 256], logits [N, 10].
TEST_F(Summary, saved_by_forward_is_measured_and_scaled) {
  const auto saved = [&](const std::string& more) {
    const Outcome outcome = train_well(std::string(kSynthetic) + "--model mlp " + more);
    return between(outcome.output, "saved by forward", "\n");
  };
  const double expected = 16 * (784 + 256 + 10) * 4 / 1024.0;
  const auto kibibytes = [](const std::string& line) { return std::stod(line.substr(line.find("forward") + 7)); };
  const std::string small = saved("--batch-size 16");
  EXPECT_TRUE(small.ends_with(" KiB  measured with 16 samples")) << small;
  EXPECT_GE(kibibytes(small), expected);
  EXPECT_LE(kibibytes(small), 1.15 * expected + 1);  // blocks are rounded up
  const std::string large = saved("--batch-size 64");
  EXPECT_TRUE(large.ends_with(" KiB  measured with 16 samples of 64")) << large;
  EXPECT_NEAR(kibibytes(large), 4 * kibibytes(small), 0.3);
  EXPECT_NEAR(kibibytes(saved("--batch-size 16 --precision fp64")), 2 * kibibytes(small), 0.3);
}

TEST_F(Summary, recompute_saves_less) {
  const auto mebibytes = [&](const std::string& more) {
    const Outcome outcome =
        train_well(std::string(kSynthetic) + "--model resnet18 --image-size 16 --batch-size 16 " + more);
    const std::string line = between(outcome.output, "saved by forward", "\n");
    EXPECT_NE(line.find(" MiB "), line.npos) << line;
    return std::stod(line.substr(line.find("forward") + 7));
  };
  const double first = 16. * 64 * 16 * 16 * 4 / (1 << 20);
  // One such activation before the blocks; of the four layers two each, of half the size from layer to layer.
  EXPECT_NEAR(mebibytes("") - mebibytes("--recompute"), first + 2 * first * (1 + 1 / 2. + 1 / 4. + 1 / 8.), 0.11);
}

TEST_F(Summary, fp64_takes_twice_the_memory) {
  const Outcome outcome = train_well(std::string(kSynthetic) + "--model mlp --precision fp64 --optimizer lars");
  expect_contains(outcome.output, "  parameters          1.6 MiB\n");
  expect_contains(outcome.output, "  optimizer state     1.6 MiB  momentum_buffer\n");
  expect_contains(outcome.output, "  fc1    linear         [64, 256]     200,960        200,704\n");
}

/// The plan that --profile-out reports: of each bucket in turn bytes, number of parameters, first and last name.
using Plan = std::vector<std::tuple<std::string, std::string, std::string, std::string>>;

Plan summarized(const std::string& output) {
  std::istringstream lines(output.substr(output.find("\nbuckets of gradients")));
  Plan plan;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string number, bytes, count, first, last;
    words >> number >> bytes >> count >> first >> last;
    std::erase(bytes, ',');
    if (number == std::to_string(plan.size())) plan.emplace_back(bytes, count, first, last);
  }
  return plan;
}

Plan trained(const std::vector<nlohmann::json>& profile) {
  const auto& names = profile.at(0).at("parameters");
  const auto& buckets = profile.at(0).at("buckets");
  Plan plan;
  for (std::size_t b = 0; b < buckets.size(); ++b)
    plan.emplace_back(profile.at(1).at("buckets").at(b).at("bytes").dump(), std::to_string(buckets[b].size()),
                      names.at(buckets[b].front().get<std::size_t>()).at("name"),
                      names.at(buckets[b].back().get<std::size_t>()).at("name"));
  return plan;
}

TEST_F(Summary, bucket_plan_is_what_training_reports) {
  for (const std::string settings : {"", "--bucket-cap-mb 0", "--bucket-cap-mb 0.01 --first-bucket-mb 0.001",
                                     "--bucket-cap-mb 100 --first-bucket-mb 0.00001"}) {
    const std::string common = "--data synthetic --synthetic-samples 8 --threads 1 --model convnet " + settings;
    const Plan plan = summarized(train_well("--summary " + common).output);
    train_well(common + " --steps 1 --eval-every 0 --batch-size 2 --progress none --profile-out p");
    EXPECT_FALSE(plan.empty());
    EXPECT_EQ(plan, trained(metrics("p"))) << settings;
  }
}

// What --profile-out writes of parameters is what a plan of buckets needs, so that a simulator may try another cap.
TEST_F(Summary, bucket_plan_can_be_made_from_a_profile) {
  train_well(
      "--data synthetic --synthetic-samples 8 --threads 1 --model convnet --bucket-cap-mb 0.01 --steps 1 "
      "--eval-every 0 --batch-size 2 --progress none --profile-out p");
  const std::vector<nlohmann::json> profile = metrics("p");
  std::vector<distributed::BucketItem> items;
  for (const auto& parameter : profile.at(0).at("parameters")) {
    EXPECT_EQ(parameter.at("dtype"), "float32");
    items.push_back({.bytes = parameter.at("bytes")});
  }
  const distributed::BucketPlan written(items, profile.at(0).at("buckets"));
  const auto& buckets = profile.at(1).at("buckets");
  ASSERT_EQ(written.size(), buckets.size());
  for (std::size_t b = 0; b < buckets.size(); ++b) EXPECT_EQ(written[b].bytes(), buckets.at(b).at("bytes"));
  const std::vector<std::size_t> limits = distributed::BucketLimits{.cap = 10485}.in_turn();
  const auto planned = distributed::plan_buckets(items, distributed::reverse_order(items.size()), limits);
  EXPECT_EQ(planned.members(), written.members());
}

TEST_F(Summary, writes_nothing) {
  const auto before = listing();
  train_well(std::string(kSynthetic) +
             "--model mlp --out run --metrics m --profile-out p --save-weights w --checkpoint-dir c");
  EXPECT_EQ(listing(), before);
}

TEST_F(Summary, is_of_the_call_and_not_of_the_run) {
  train_well("--data synthetic --synthetic-samples 8 --threads 1 --model mlp --steps 1 --out run --progress none");
  EXPECT_FALSE(nlohmann::json::parse(read_text(folder_ / "run/config.json")).contains("summary"));
  const auto before = listing();
  const Outcome outcome = train_well("--config run/config.json --summary --resume");
  expect_contains(outcome.output, "resumed     after step 1");
  expect_contains(outcome.output, "\nmemory of a rank\n");
  EXPECT_EQ(listing(), before);
}

TEST_F(Summary, several_ranks_print_one) {
  const Outcome outcome = launch_well(2, std::string(kSynthetic) + "--model mlp --out run");
  const std::size_t first = outcome.output.find("multiply-adds of one sample");
  EXPECT_NE(first, std::string::npos) << outcome.output;
  EXPECT_EQ(outcome.output.find("multiply-adds of one sample", first + 1), std::string::npos) << outcome.output;
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

}  // namespace
}  // namespace tandem::train
