// Runs of several ranks under the launcher that are asked to stop, paused, or started again after a failure.
#include "tests/tools/launch_process.h"
#include "tests/tools/train_process.h"

namespace tandem::train {
namespace {

using launch::eventually;
using launch::Launched;

class LaunchedStops : public TrainTest {
 protected:
  static std::vector<std::string> words(const std::string& text) {
    std::vector<std::string> all;
    std::istringstream stream(text);
    for (std::string word; stream >> word;) all.push_back(word);
    return all;
  }
  std::string run(const std::string& more) const {
    return "--model mlp --data synthetic --synthetic-samples 64 --batch-size 4 --threads 1 --eval-every 0 "
           "--progress none --metrics " +
           path("m.jsonl") + " --out " + path("out") + " " + more;
  }
  std::unique_ptr<Launched> start(const std::string& flags = "", bool has_own_group = false) {
    auto launched =
        std::make_unique<Launched>(folder_,
                                   words(flags + " -n 2 -- " TANDEM_TRAIN " " +
                                         run("--epochs 1000000 --checkpoint-every 1000000000 --timeout-s 5")),
                                   has_own_group);
    EXPECT_TRUE(has_lines(2)) << launched->err();
    return launched;
  }
  bool has_lines(std::int64_t count) const {
    return eventually([&] { return fs::exists(folder_ / "m.jsonl") && lines_so_far("m.jsonl") >= count; });
  }
  void expect_good_stop(const Launched& launched) const {
    const auto step = metrics("m.jsonl").back().at("steps").get<int>();
    const std::string file = path(fmt::format("out/checkpoints/step-{:010}.safetensors", step));
    EXPECT_EQ(launched.last_error(),
              fmt::format("launch: error: interrupted after step {}; checkpoint saved: {}; continue with --resume",
                          step, file));
    EXPECT_TRUE(fs::exists(file));
    EXPECT_EQ(hash("m.jsonl"), hash("m.jsonl.rank1"));
  }
  std::vector<pid_t> ranks_of(const Launched& launched) const {
    std::vector<pid_t> ranks;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const std::string status = read_text(entry.path() / "status");
      if (status.find(fmt::format("PPid:\t{}\n", launched.pid())) != status.npos &&
          read_text(entry.path() / "cmdline").starts_with(TANDEM_TRAIN))
        ranks.push_back(std::stoi(entry.path().filename().string()));
    }
    return ranks;
  }
  static bool is_paused(pid_t pid) {
    return read_text(fmt::format("/proc/{}/status", pid)).find("State:\tT") != std::string::npos;
  }
};

TEST_F(LaunchedStops, a_signal_to_all_and_again_is_one_wish) {
  const auto launched = start();
  const auto ranks = ranks_of(*launched);
  ASSERT_EQ(ranks.size(), 2U);
  for (int i = 0; i < 2; ++i) {
    launched->send(SIGTERM);
    for (const pid_t rank : ranks) kill(rank, SIGTERM);
  }
  EXPECT_EQ(launched->wait(), 128 + SIGTERM) << launched->err();
  expect_good_stop(*launched);
}

TEST_F(LaunchedStops, user_signals_stop_with_a_checkpoint) {
  const auto launched = start("--max-restarts 1");
  launched->send(SIGUSR1);
  EXPECT_EQ(launched->wait(), 128 + SIGUSR1) << launched->err();
  expect_good_stop(*launched);
}

// Longer than the silence after which a rank counts as stalled, and than --timeout-s: of neither must a rank speak that
// was paused itself.
TEST_F(LaunchedStops, a_pause_is_no_silence) {
  const auto launched = start("", /*has_own_group=*/true);
  const auto ranks = ranks_of(*launched);
  ASSERT_EQ(ranks.size(), 2U);
  launched->send(SIGTSTP);
  ASSERT_TRUE(eventually([&] { return is_paused(launched->pid()) && is_paused(ranks[0]) && is_paused(ranks[1]); }));
  const auto lines = lines_so_far("m.jsonl");
  std::this_thread::sleep_for(std::chrono::milliseconds(6500));
  EXPECT_LE(lines_so_far("m.jsonl"), lines + 1);
  launched->send(SIGCONT);
  EXPECT_TRUE(has_lines(lines + 200)) << launched->err();
  launched->send(SIGINT);
  EXPECT_EQ(launched->wait(), 128 + SIGINT) << launched->err();
  expect_good_stop(*launched);
}

class Restarts : public LaunchedStops {
 protected:
  /// Rank 1 is killed in step 7 of the first attempt.
  Outcome launch_failing_once(const std::string& more) const {
    write("rank.sh", fmt::format("program='{}'\n[ -z \"$TANDEM_RESTART\" ] && program='{}'\nexec \"$program\" \"$@\"\n",
                                 TANDEM_TRAIN, TANDEM_FAULTY_TRAIN));
    return shell("env FAULT_RANK=1 FAULT_STEP=7 FAULT_AT=forward FAULT_DO=kill '" TANDEM_LAUNCH
                 "' -n 2 --max-restarts 2 -- sh rank.sh " +
                 run("--steps 12 --checkpoint-every 2 --bucket-order reverse " + more));
  }
};

TEST_F(Restarts, go_on_from_the_newest_checkpoint) {
  ASSERT_EQ(shell("'" TANDEM_LAUNCH "' -n 2 -- '" TANDEM_TRAIN "' " + run("--steps 12")).code, 0);
  const std::string undisturbed = hash("m.jsonl");
  fs::remove_all(folder_ / "out");
  for (const std::string flags : {"", "--overwrite"}) {  // the second time over the first one's run
    const Outcome outcome = launch_failing_once(flags);
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    EXPECT_NE(outcome.output.find("resumed     after step 6"), std::string::npos) << outcome.output;
    EXPECT_EQ(losses("out/metrics.jsonl").size(), 12U);
    EXPECT_EQ(hash("m.jsonl"), undisturbed);
  }
}

TEST_F(Restarts, take_no_other_run_for_their_own) {
  ASSERT_EQ(shell("'" TANDEM_TRAIN "' " + run("--steps 2")).code, 0);
  const std::string before = read_text(folder_ / "out/metrics.jsonl");
  const Outcome outcome = shell("'" TANDEM_LAUNCH "' -n 1 --max-restarts 1 -- '" TANDEM_TRAIN "' " + run("--steps 4"));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.last_error.find("holds files already"), std::string::npos) << outcome.errors;
  EXPECT_EQ(read_text(folder_ / "out/metrics.jsonl"), before);
}

}  // namespace
}  // namespace tandem::train
