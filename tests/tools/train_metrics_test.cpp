// What the lines of --metrics and --profile-out say: right figures, and docs/metrics.md names every field.
#include <set>

#include "tests/tools/train_ranks.h"

namespace tandem::train {
namespace {

using Json = nlohmann::json;

std::string tiny(const std::string& more) {
  return "--model mlp --data synthetic --synthetic-samples 48 --batch-size 4 --threads 1 --progress none "
         "--accumulation-steps 3 --clip-grad-norm 1 " +
         more;
}

class TrainMetrics : public TrainRanks {
 protected:
  /// Of the updates.
  std::vector<Json> updates(const std::string& name) const {
    std::vector<Json> lines;
    for (const Json& line : metrics(name))
      if (line.contains("optimizer_ms")) lines.push_back(line);
    return lines;
  }

  /// Each update's parts do not overlap, so together they are shorter than the whole.
  void expect_parts(const Json& update, const Json& profile) const {
    constexpr double kRounding = 0.01;
    const auto ms = [](const Json& line, const char* key) { return line.at(key).get<double>(); };
    for (const char* key : {"forward_ms", "backward_ms", "optimizer_ms", "local_forward_ms", "local_backward_ms"})
      EXPECT_GT(ms(profile, key), 0) << key << " of " << profile;
    EXPECT_EQ(profile.at("step"), update.at("step"));
    EXPECT_EQ(profile.at("local_passes"), 2);
    EXPECT_LE(ms(profile, "forward_ms") + ms(profile, "backward_ms") + ms(profile, "exposed_ms") +
                  ms(profile, "optimizer_ms") + ms(profile, "local_forward_ms") + ms(profile, "local_backward_ms"),
              ms(update, "step_ms") + kRounding);
    EXPECT_LE(ms(profile, "backward_ms") + ms(profile, "exposed_ms") + ms(profile, "local_backward_ms"),
              ms(update, "backward_ms") + kRounding);
    EXPECT_LE(ms(update, "data_ms") + ms(update, "forward_ms") + ms(update, "backward_ms") + ms(update, "optimizer_ms"),
              ms(update, "step_ms") + kRounding);
  }
};

TEST_F(TrainMetrics, a_profile_holds_all_parts_of_an_update) {
  launch_well(2, tiny("--steps 2 --metrics m --profile-out p"));
  for (const std::string rank : {"", ".rank1"}) {
    const auto lines = updates("m" + rank), profiles = updates("p" + rank);
    ASSERT_EQ(lines.size(), 2u);
    ASSERT_EQ(profiles.size(), 2u);
    for (std::size_t i = 0; i < 2; ++i) {
      expect_parts(lines[i], profiles[i]);
      EXPECT_GT(profiles[i].at("bytes_sent"), 0);
      EXPECT_GT(lines[i].at("comm_ms"), 0);
      for (const Json& bucket : profiles[i].at("buckets")) EXPECT_LE(bucket.at("begin_ms"), bucket.at("end_ms"));
    }
  }
}

TEST_F(TrainMetrics, one_rank_communicates_nothing) {
  for (const std::string overlap : {"", "--no-overlap"}) {
    train_well(tiny("--steps 2 --metrics m --profile-out p " + overlap));
    const auto lines = updates("m"), profiles = updates("p");
    for (std::size_t i = 0; i < 2; ++i) {
      expect_parts(lines[i], profiles[i]);
      EXPECT_EQ(lines[i].at("comm_ms"), 0);
      EXPECT_EQ(lines[i].at("comm_exposed_ms"), 0);
      EXPECT_EQ(profiles[i].at("exposed_ms"), 0);
      EXPECT_EQ(profiles[i].at("bytes_sent"), 0);
      for (const Json& bucket : profiles[i].at("buckets")) {
        EXPECT_GE(bucket.at("ready_ms"), 0);
        EXPECT_TRUE(bucket.at("begin_ms").is_null() && bucket.at("end_ms").is_null());
      }
    }
  }
}

// Buckets are built anew after the first update; its line is of the old ones.
TEST_F(TrainMetrics, a_plan_holds_for_the_lines_behind_it) {
  launch_well(2,
              "--model convnet --data synthetic --synthetic-samples 32 --batch-size 4 --threads 1 --progress none "
              "--eval-every 0 --bucket-order observed --bucket-cap-mb 0 --first-bucket-mb 0 --profile-out p");
  Json plan;
  std::vector<std::vector<std::int64_t>> expected;
  std::vector<bool> is_plan;
  for (const Json& line : metrics("p")) {
    is_plan.push_back(line.contains("parameters"));
    if (is_plan.back()) {
      plan = line;
      continue;
    }
    ASSERT_EQ(line.at("buckets").size(), plan.at("buckets").size());
    for (std::size_t b = 0; b < plan.at("buckets").size(); ++b) {
      std::int64_t bytes = 0;  // slots begin at multiples of 64 bytes
      for (const Json& parameter : plan.at("buckets")[b])
        bytes +=
            (plan.at("parameters").at(parameter.get<std::size_t>()).at("bytes").get<std::int64_t>() + 63) / 64 * 64;
      EXPECT_EQ(line.at("buckets")[b].at("bytes"), bytes) << "step " << line.at("step") << ", bucket " << b;
    }
  }
  EXPECT_EQ(is_plan, (std::vector<bool>{true, false, true, false, false, false}));
}

TEST_F(TrainMetrics, the_docs_name_every_field) {
  train_well(tiny("--steps 1 --metrics m --profile-out p"));
  const std::string docs = read_text(fs::path(TANDEM_SOURCE_DIR) / "docs/metrics.md");
  std::set<std::string> fields;
  const auto add = [&](const Json& line) {
    for (const auto& [key, value] : line.items()) fields.insert(key);
  };
  for (const char* file : {"m", "p"})
    for (const Json& line : metrics(file)) {
      add(line);
      if (line.contains("ready_ms")) add(line.at("buckets").at(0));
      if (line.contains("parameters")) add(line.at("parameters").at(0));
    }
  EXPECT_GT(fields.size(), 30u);
  for (const std::string& field : fields) EXPECT_NE(docs.find("`" + field + "`"), std::string::npos) << field;
}

// Windows are not held whole: with the memory of 1,024 micro-steps this run would need 98 MiB more.
TEST_F(TrainMetrics, memory_does_not_grow_with_accumulation_steps) {
  // The address sanitizer keeps what was freed, up to 256 MB of it.
  const char* given = std::getenv("ASAN_OPTIONS");
  setenv("ASAN_OPTIONS", (std::string(given ? given : "") + ":quarantine_size_mb=1").c_str(), 1);
  const auto peak = [&](int micro_steps) {
    train_well(
        "--model mlp --data synthetic --synthetic-samples 32768 --batch-size 32 --threads 1 --progress none --steps 1 "
        "--eval-every 0 --metrics m --accumulation-steps " +
        std::to_string(micro_steps));
    return metrics("m").back().at("peak_rss_mb").get<double>();
  };
  EXPECT_LT(peak(1024), peak(1) + 30);
}

}  // namespace
}  // namespace tandem::train
