// Ranks that die, leave or stall (line 30 of what DDP promises), signals, and strangers at the store's door.
#include <fcntl.h>

#include <set>

#include "tests/tools/launch_process.h"
#include "tests/tools/rank_processes.h"
#include "tests/tools/train_process.h"

namespace tandem::train {
namespace {

using Clock = std::chrono::steady_clock;
using launch::eventually;
using launch::Launched;

constexpr int kRanks = 3;
constexpr std::chrono::seconds kDead{5}, kStopped{10};

/// Two buckets, the first of which is complete long before backward ends.
const std::string kRun =
    "--model convnet --data synthetic --synthetic-samples 2000 --batch-size 4 --threads 1 --progress none "
    "--eval-every 0 ";

struct Fault {
  int rank;
  const char* at;
  const char* what;

  std::string environment() const {
    return fmt::format("env FAULT_RANK={} FAULT_STEP=3 FAULT_AT={} FAULT_DO={} ", rank, at, what);
  }
};

/// Processes whose command line holds `text`.
int processes_with(const std::string& text) {
  int count = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error))
    if (read_text(entry.path() / "cmdline").find(text) != std::string::npos) ++count;
  return count;
}

class Failures : public TrainTest, public testing::WithParamInterface<Fault> {
 protected:
  static void expect_named(const std::string& error, const Fault& fault) {
    EXPECT_TRUE(error.starts_with("train: error: ")) << error;
    EXPECT_NE(error.find("rank " + std::to_string(fault.rank)), std::string::npos) << error;
    if (std::string(fault.at) == "leaving") return;
    EXPECT_NE(error.find("all_reduce"), std::string::npos) << error;
    EXPECT_NE(error.find("bucket"), std::string::npos) << error;
  }
};

// Nobody but the ranks themselves is there to notice.
TEST_P(Failures, by_hand_survivors_name_the_rank_and_end_in_time) {
  const Fault fault = GetParam();
  const HeldPort port;
  const std::string init = " --init tcp://127.0.0.1:" + port.str();
  RankProcesses ranks(folder_);
  for (int r = 0; r < kRanks; ++r)
    ranks.start(fault.environment() +
                fmt::format("'{}' --rank {} --world-size {} --steps 20 ", TANDEM_FAULTY_TRAIN, r, kRanks) + kRun +
                init);
  const auto failed = static_cast<std::size_t>(fault.rank);
  const bool is_stop = std::string(fault.what) == "stop";
  const Clock::time_point begin = is_stop ? ranks.wait_stopped(failed) : ranks.wait(failed).when;
  for (std::size_t i = 0; i < kRanks; ++i) {
    if (i == failed) continue;
    const auto& end = ranks.wait(i);
    EXPECT_EQ(end.code, 3) << "rank " << i << ": " << ranks.errors(i);
    EXPECT_LE(end.when - begin, is_stop ? kStopped : kDead) << "rank " << i;
    expect_named(end.last_error, fault);
  }
}

TEST_P(Failures, the_launcher_names_the_first_cause_last_and_leaves_no_child) {
  const Fault fault = GetParam();
  const std::string marker = path("out-of-this-test");
  const Outcome outcome = shell(
      fault.environment() + fmt::format("'{}' -n {} -- '{}' --steps 20 ", TANDEM_LAUNCH, kRanks, TANDEM_FAULTY_TRAIN) +
      kRun + "--metrics " + marker);
  const std::string what = fault.what;
  EXPECT_EQ(outcome.code, what == "exit" ? 1 : 128 + SIGKILL) << outcome.errors;
  EXPECT_TRUE(outcome.last_error.starts_with("launch: error: rank " + std::to_string(fault.rank))) << outcome.errors;
  EXPECT_NE(outcome.last_error.find(what == "kill"   ? "killed by signal 9"
                                    : what == "stop" ? "stopped"
                                                     : "left before the end"),
            std::string::npos)
      << outcome.errors;
  EXPECT_EQ(processes_with(marker), 0);
}

INSTANTIATE_TEST_SUITE_P(Train, Failures,
                         testing::Values(Fault{1, "forward", "kill"}, Fault{1, "backward", "kill"},
                                         Fault{2, "all_reduce", "kill"}, Fault{1, "leaving", "kill"},
                                         Fault{0, "backward", "kill"}, Fault{1, "backward", "exit"},
                                         Fault{2, "all_reduce", "stop"}, Fault{0, "forward", "stop"}),
                         [](const auto& tested) {
                           return fmt::format("rank_{}_{}_{}", tested.param.rank, tested.param.at, tested.param.what);
                         });

class LaunchedTraining : public TrainTest {
 protected:
  /// An endless run, going.
  std::unique_ptr<Launched> start(int ranks, const std::string& marker) {
    std::vector<std::string> arguments{"-n", std::to_string(ranks), "--", TANDEM_TRAIN};
    std::istringstream words(kRun + "--epochs 1000 --metrics " + marker);
    for (std::string word; words >> word;) arguments.push_back(word);
    auto launched = std::make_unique<Launched>(folder_, arguments);
    EXPECT_TRUE(eventually([&] {
      return fs::exists(marker) && read_text(marker).find("\"step\":3") != std::string::npos;
    })) << launched->err();
    return launched;
  }
};

TEST_F(LaunchedTraining, interrupt_stops_all_ranks_after_the_same_update) {
  const std::string marker = path("m");
  const auto launched = start(3, marker);
  launched->send(SIGINT);
  EXPECT_EQ(launched->wait(), 128 + SIGINT);
  const auto last = metrics("m").back();
  EXPECT_EQ(last["done"], false);
  for (const char* other : {"m.rank1", "m.rank2"}) {
    EXPECT_EQ(metrics(other).back()["steps"], last["steps"]);
    EXPECT_EQ(hash(other), hash("m"));
  }
  EXPECT_EQ(processes_with(marker), 0);
}

TEST_F(LaunchedTraining, ranks_end_when_the_launcher_is_killed) {
  const std::string marker = path("m");
  {
    const auto launched = start(2, marker);
    EXPECT_GE(processes_with(marker), 2);
    launched->send(SIGKILL);
    EXPECT_EQ(launched->wait(), -SIGKILL);
  }
  EXPECT_TRUE(eventually([&] { return processes_with(marker) == 0; }, std::chrono::seconds(10)));
}

TEST_F(LaunchedTraining, a_rank_killed_from_outside_ends_the_run) {
  const std::string marker = path("m");
  const auto launched = start(3, marker);
  pid_t victim = 0;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string environment = read_text(entry.path() / "environ") + '\0';
    if (read_text(entry.path() / "cmdline").find(marker) != std::string::npos &&
        environment.find(std::string("\0RANK=1\0", 8)) != std::string::npos)
      victim = std::stoi(entry.path().filename().string());
  }
  ASSERT_GT(victim, 0);
  kill(victim, SIGKILL);
  EXPECT_EQ(launched->wait(), 128 + SIGKILL);
  EXPECT_NE(launched->last_error().find("rank 1 was killed by signal 9"), std::string::npos) << launched->err();
  EXPECT_EQ(processes_with(marker), 0);
}

TEST_F(LaunchedTraining, two_launches_at_once_do_not_meet) {
  fs::create_directory(folder_ / "a");
  fs::create_directory(folder_ / "b");
  const auto arguments = [&](const std::string& name, const std::string& seed) {
    std::vector<std::string> all{"-n", "2", "--", TANDEM_TRAIN};
    std::istringstream words(kRun + "--steps 5 --seed " + seed + " --metrics " + path(name));
    for (std::string word; words >> word;) all.push_back(word);
    return all;
  };
  Launched a(folder_ / "a", arguments("a/m", "1")), b(folder_ / "b", arguments("b/m", "2"));
  EXPECT_EQ(a.wait(), 0) << a.err();
  EXPECT_EQ(b.wait(), 0) << b.err();
  EXPECT_EQ(hash("a/m"), hash("a/m.rank1"));
  EXPECT_EQ(hash("b/m"), hash("b/m.rank1"));
  EXPECT_NE(hash("a/m"), hash("b/m"));
}

TEST_F(LaunchedTraining, starts_and_ends_leave_no_stray_message) {
  const std::string line = fmt::format(
      "'{}' -n 2 -- '{}' --model mlp --data synthetic --synthetic-samples 16 --batch-size 4 --threads 1 "
      "--progress none --eval-every 0 --steps 2",
      TANDEM_LAUNCH, TANDEM_TRAIN);
  std::set<std::string> outputs;
  for (int i = 0; i < 50; ++i) {
    const Outcome outcome = shell(line);
    ASSERT_EQ(outcome.code, 0) << "start " << i << "\n" << outcome.output << outcome.errors;
    ASSERT_EQ(outcome.errors, "") << "start " << i;
  }
}

/// One who connects, says `text`, and stays.
class Stranger {
 public:
  Stranger(int port, const std::string& text) : descriptor_(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    connect(descriptor_, reinterpret_cast<sockaddr*>(&address), sizeof(address));
    send(descriptor_, text.data(), text.size(), MSG_NOSIGNAL);
  }
  ~Stranger() { close(descriptor_); }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;

 private:
  int descriptor_;
};

TEST_F(LaunchedTraining, strangers_at_the_stores_port_change_nothing) {
  const auto run = [&](const std::string& name, bool is_disturbed) {
    const HeldPort port;
    RankProcesses ranks(folder_);
    for (int r = 0; r < 2; ++r)
      ranks.start(fmt::format("'{}' --rank {} --world-size 2 --init tcp://127.0.0.1:{} --steps 40 --metrics {} ",
                              TANDEM_TRAIN, r, port.number(), name) +
                  kRun);
    std::vector<std::unique_ptr<Stranger>> strangers;
    if (is_disturbed) {
      const fs::path m = folder_ / name;
      EXPECT_TRUE(eventually([&] { return read_text(m).find("\"step\":2") != std::string::npos; }));
      const std::string garbage("GET / HTTP/1.1\r\n\r\n\0\xff\xfe", 20), gigabytes(64, '\xff');
      for (const std::string& text : {std::string(), garbage, gigabytes, std::string(4096, 'x')})
        for (int i = 0; i < 50; ++i) strangers.push_back(std::make_unique<Stranger>(port.number(), text));
    }
    for (const std::size_t i : {0u, 1u}) EXPECT_EQ(ranks.wait(i).code, 0) << ranks.errors(i);
    for (const std::size_t i : {0u, 1u}) EXPECT_EQ(ranks.errors(i), "");
    EXPECT_EQ(hash(name), hash(name + ".rank1"));
  };
  run("undisturbed", false);
  run("disturbed", true);
  EXPECT_EQ(hash("disturbed"), hash("undisturbed"));
}

}  // namespace
}  // namespace tandem::train
