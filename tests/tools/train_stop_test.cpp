// Runs that are asked to stop: at any moment, more than once, by any signal, or because nobody takes their output.
#include <sys/stat.h>

#include <random>

#include "tests/tools/launch_process.h"
#include "tests/tools/rank_processes.h"
#include "tests/tools/train_process.h"

namespace tandem::train {
namespace {

using launch::eventually;

// Small, and most of its time in float32 products.
constexpr const char* kBert =
    R"({"vocab_size": 1000, "hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2,
        "intermediate_size": 512, "max_position_embeddings": 64, "type_vocab_size": 2})";

class Stops : public TrainTest {
 protected:
  Stops() { write("bert.json", kBert); }

  /// An endless run, by hand, that keeps checkpoints in `out`.
  static std::string endless(const std::string& more, const std::string& program = TANDEM_TRAIN) {
    return "'" + program +
           "' --model mlp --data synthetic --synthetic-samples 64 --batch-size 4 --threads 1 --epochs 1000000 "
           "--checkpoint-every 1000000000 --eval-every 0 --progress none --metrics m.jsonl --out out " +
           more;
  }
  bool has_lines(std::int64_t count) const {
    return eventually([&] { return fs::exists(folder_ / "m.jsonl") && lines_so_far("m.jsonl") >= count; });
  }
  /// "interrupted after step 7; checkpoint saved: out/checkpoints/...; continue with --resume", and the checkpoint is
  /// there, and whole.
  void expect_good_stop(const std::string& last_error, const std::string& prefix = "train: error: interrupted") const {
    const auto last = metrics("m.jsonl").back();
    ASSERT_EQ(last.at("done"), false);
    const auto step = last["steps"].get<std::int64_t>();
    const std::string file = fmt::format("out/checkpoints/step-{:010}.safetensors", step);
    EXPECT_EQ(last_error,
              fmt::format("{} after step {}; checkpoint saved: {}; continue with --resume", prefix, step, file));
    EXPECT_EQ(core::load_safetensors(folder_ / file).count("schedule.step"), 1U);
    EXPECT_EQ(losses("m.jsonl").size(), static_cast<std::size_t>(step));
  }
};

// TANDEM_STOPS=1000 in the environment for more.
TEST_F(Stops, at_random_moments_leave_a_whole_checkpoint) {
  const char* const wanted = std::getenv("TANDEM_STOPS");
  const int stops = wanted ? std::atoi(wanted) : 50;
  std::mt19937 random(1);
  std::uniform_int_distribution<int> microseconds(0, 150000);
  for (int i = 0; i < stops && !HasFailure(); ++i) {
    fs::remove_all(folder_ / "out");
    fs::remove(folder_ / "m.jsonl");
    RankProcesses run(folder_);
    run.start(
        fmt::format("'{}' --model bert --model-config bert.json --data synthetic --synthetic-samples 64 "
                    "--seq-length 32 --batch-size 16 --threads {} --epochs 1000000 --eval-every 0 "
                    "--checkpoint-every 1000000000 --seed {} --progress none --metrics m.jsonl --out out",
                    TANDEM_TRAIN, 1 + i % 2, i));
    ASSERT_TRUE(has_lines(1)) << run.errors(0);
    std::this_thread::sleep_for(std::chrono::microseconds(microseconds(random)));
    run.send(0, SIGTERM);
    EXPECT_EQ(run.wait(0).code, 128 + SIGTERM) << "stop " << i << ": " << run.errors(0);
    expect_good_stop(run.wait(0).last_error);
  }
}

/// Hexadecimal, as /proc/PID/status has it.
std::uint64_t mask(const std::string& status, const std::string& name) {
  const std::size_t at = status.find(name + ":");
  return at == status.npos ? 0 : std::stoull(status.substr(at + name.size() + 1), nullptr, 16);
}

// Whoever installed the handler: a library, or us.
TEST_F(Stops, no_handler_can_run_on_any_thread) {
  std::uint64_t harmless = 0;  // faults, which a thread raises itself, and the C library's own
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS, 32, 33})
    harmless |= std::uint64_t{1} << (number - 1);
  RankProcesses run(folder_);
  run.start(endless("--threads 2"));
  ASSERT_TRUE(has_lines(2)) << run.errors(0);
  int threads = 0;
  for (const auto& task : fs::directory_iterator(fmt::format("/proc/{}/task", run.pid(0)))) {
    const std::string status = read_text(task.path() / "status");
    EXPECT_EQ(mask(status, "SigCgt") & ~mask(status, "SigBlk") & ~harmless, 0U) << status;
    ++threads;
  }
  EXPECT_GE(threads, 3);
  run.send(0, SIGTERM);
  EXPECT_EQ(run.wait(0).code, 128 + SIGTERM);
}

TEST_F(Stops, every_signal_that_asks_for_an_end_is_heard) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) {
    fs::remove_all(folder_ / "out");
    fs::remove(folder_ / "m.jsonl");
    RankProcesses run(folder_);
    run.start(endless(""));
    ASSERT_TRUE(has_lines(1)) << run.errors(0);
    run.send(0, number);
    EXPECT_EQ(run.wait(0).code, 128 + number) << run.errors(0);
    expect_good_stop(run.wait(0).last_error);
  }
}

TEST_F(Stops, a_repeat_within_a_moment_counts_once) {
  RankProcesses run(folder_);
  run.start("env FAULT_RANK=none " + endless("", TANDEM_FAULTY_TRAIN));
  ASSERT_TRUE(has_lines(1)) << run.errors(0);
  kill(run.pid(0), SIGSTOP);  // so that they come together
  for (const int number : {SIGTERM, SIGHUP}) run.send(0, number);
  kill(run.pid(0), SIGCONT);
  EXPECT_GE(run.wait(0).code, 128) << run.errors(0);
  expect_good_stop(run.wait(0).last_error);
}

TEST_F(Stops, a_later_second_signal_ends_at_once) {
  RankProcesses run(folder_);
  run.start("env FAULT_RANK=0 FAULT_STEP=3 FAULT_AT=forward FAULT_DO=hang " + endless("", TANDEM_FAULTY_TRAIN));
  ASSERT_TRUE(has_lines(2)) << run.errors(0);
  run.send(0, SIGTERM);
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  run.send(0, SIGTERM);
  EXPECT_EQ(run.wait(0).code, -SIGTERM) << run.errors(0);
  EXPECT_EQ(run.wait(0).last_error,
            "train: error: interrupted by signal 15 (Terminated) a second time, so at once: no checkpoint was made");
}

TEST_F(Stops, before_training_began_there_is_nothing_to_lose) {
  const HeldPort port;
  RankProcesses run(folder_);
  run.start(endless("--rank 0 --world-size 2 --init tcp://127.0.0.1:" + port.str()));
  ASSERT_TRUE(eventually([&] { return fs::exists(fmt::format("/proc/{}/task", run.pid(0))); }));
  ASSERT_TRUE(eventually([&] {  // the listener waits, with nothing blocked that it hears
    const std::string command = read_text(fmt::format("/proc/{}/cmdline", run.pid(0)));
    int threads = 0;
    for ([[maybe_unused]] const auto& task : fs::directory_iterator(fmt::format("/proc/{}/task", run.pid(0))))
      ++threads;
    return command.starts_with(TANDEM_TRAIN) && threads > 1;
  }));
  run.send(0, SIGINT);
  EXPECT_EQ(run.wait(0).code, -SIGINT) << run.errors(0);
  EXPECT_EQ(run.wait(0).last_error, "train: error: interrupted by signal 2 (Interrupt) before training began");
  EXPECT_FALSE(fs::exists(folder_ / "out"));
}

TEST_F(Stops, what_was_ignored_at_the_start_stays_ignored) {
  write("run.sh", "trap '' HUP INT\nexec " + endless(""));
  RankProcesses run(folder_);
  run.start("sh run.sh");
  ASSERT_TRUE(has_lines(1)) << run.errors(0);
  run.send(0, SIGHUP);
  run.send(0, SIGINT);
  ASSERT_TRUE(has_lines(lines_so_far("m.jsonl") + 50)) << run.errors(0);
  run.send(0, SIGTERM);
  EXPECT_EQ(run.wait(0).code, 128 + SIGTERM) << run.errors(0);
  expect_good_stop(run.wait(0).last_error);
}

TEST_F(Stops, a_run_without_checkpoints_says_so) {
  RankProcesses run(folder_);
  run.start(
      fmt::format("'{}' --model mlp --data synthetic --epochs 1000000 --eval-every 0 --progress none --metrics "
                  "m.jsonl --threads 1",
                  TANDEM_TRAIN));
  ASSERT_TRUE(has_lines(1)) << run.errors(0);
  run.send(0, SIGINT);
  EXPECT_EQ(run.wait(0).code, 128 + SIGINT);
  EXPECT_EQ(run.wait(0).last_error,
            fmt::format("train: error: interrupted after step {}; no checkpoint: the run keeps none without --out or "
                        "--checkpoint-dir",
                        metrics("m.jsonl").back()["steps"].get<int>()));
}

TEST_F(Stops, a_reader_of_stdout_that_leaves) {
  const Outcome outcome = shell("{ " + endless("--eval-every 1") + "; echo $? >code; } | head -n 1 >/dev/null");
  EXPECT_EQ(read_text(folder_ / "code"), "141\n") << outcome.errors;
  expect_good_stop(outcome.last_error, "train: error: stdout cannot be written any more (Broken pipe): stopped");
}

TEST_F(Stops, a_reader_of_the_metrics_that_leaves) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  const Outcome outcome = shell("head -n 3 pipe >/dev/null & " + endless("--metrics pipe"));
  EXPECT_EQ(outcome.code, 141) << outcome.errors;
  launch::expect_contains(outcome.last_error,
                          "train: error: pipe cannot be written any more (Broken pipe): stopped after step ");
  launch::expect_contains(outcome.last_error, "; checkpoint saved: out/checkpoints/step-");
}

TEST_F(Stops, a_full_disk_under_the_profile) {
  const Outcome outcome = shell(endless("--profile-out /dev/full"));
  EXPECT_EQ(outcome.code, 1) << outcome.errors;
  expect_good_stop(outcome.last_error,
                   "train: error: /dev/full cannot be written any more (No space left on device): stopped");
}

TEST_F(Stops, a_wait_for_a_reader_of_the_profile) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  RankProcesses run(folder_);
  run.start(endless("--profile-out pipe"));
  ASSERT_TRUE(eventually([&] { return fs::exists(folder_ / "out/metrics.jsonl"); })) << run.errors(0);
  run.send(0, SIGINT);
  EXPECT_EQ(run.wait(0).code, 1);
  EXPECT_EQ(run.wait(0).last_error, "train: error: pipe: nobody reads this pipe");
}

TEST_F(Stops, a_wait_for_a_reader_of_the_metrics) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  RankProcesses run(folder_);
  run.start(endless("--metrics pipe"));
  ASSERT_TRUE(eventually([&] { return fs::exists(folder_ / "out/metrics.jsonl"); })) << run.errors(0);
  run.send(0, SIGINT);
  EXPECT_EQ(run.wait(0).code, 1);
  EXPECT_EQ(run.wait(0).last_error, "train: error: pipe: nobody reads this pipe");
}

TEST_F(Stops, a_file_that_may_not_grow) {
  const Outcome outcome = shell(
      "ulimit -f 4; '" TANDEM_TRAIN
      "' --model mlp --data synthetic --epochs 1000000 --eval-every 0 --progress none --metrics m.jsonl --threads 1");
  EXPECT_EQ(outcome.code, 1) << outcome.errors;
  launch::expect_contains(outcome.last_error,
                          "train: error: m.jsonl cannot be written any more (File too large): stopped after step ");
}

TEST_F(Stops, streams_that_are_closed_mix_nothing_into_files) {
  const Outcome outcome = shell("'" TANDEM_TRAIN
                                "' --model mlp --data synthetic --synthetic-samples 64 --batch-size 8 --progress plain "
                                "--metrics m.jsonl --out out --threads 1 <&- >&- 2>&-");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(metrics("m.jsonl").back()["done"], true);  // each line is JSON
  EXPECT_EQ(read_text(folder_ / "out/metrics.jsonl"), read_text(folder_ / "m.jsonl"));
}

}  // namespace
}  // namespace tandem::train
