// What ranks of `launch` see, what comes out, and wrong usage.
#include <sys/stat.h>

#include "tests/tools/launch_process.h"

namespace tandem::launch {
namespace {

TEST_F(LaunchTest, each_rank_sees_its_place) {
  Launched run(folder_, shell({"-n", "2"},
                              "echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_ADDR $TANDEM_LAUNCH; "
                              "echo $OMP_WAIT_POLICY ${TANDEM_RESTART-none}; echo $MASTER_PORT $OMP_NUM_THREADS; "
                              "wc -c"));  // of an empty stdin
  EXPECT_EQ(run.wait(), 0) << run.err();
  for (const std::string rank : {"0", "1"}) {
    const auto lines = run.lines_of_rank("[" + rank + "] ");
    ASSERT_EQ(lines.size(), 4U) << run.out();
    EXPECT_EQ(lines[0], rank + " 2 " + rank + " 2 127.0.0.1 1");
    expect_contains(lines[1], " none");
    int port = 0, threads = 0;
    std::istringstream(lines[2]) >> port >> threads;
    EXPECT_GT(port, 0);
    EXPECT_GT(threads, 0);
    EXPECT_EQ(lines[3], "0");
  }
  expect_contains(run.out(), "  store     tcp://127.0.0.1:");
  EXPECT_EQ(run.err(), "");
}

// What the launcher blocks and ignores is its own affair.
TEST_F(LaunchTest, ranks_hear_all_signals) {
  Launched run(folder_, {"-n", "1", "--", "grep", "-E", "^Sig(Blk|Ign):", "/proc/self/status"});
  EXPECT_EQ(run.wait(), 0) << run.err();
  const auto lines = run.lines_of_rank("[0] ");
  ASSERT_EQ(lines.size(), 2U) << run.out();
  EXPECT_EQ(lines[0], "SigBlk:\t0000000000000000");
  const auto ignored = std::stoull(lines[1].substr(lines[1].find('\t')), nullptr, 16);
  for (const int number : {SIGPIPE, SIGXFSZ, SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2})
    EXPECT_EQ(ignored & (1ULL << (number - 1)), 0U) << number;
}

TEST_F(LaunchTest, lines_stay_whole_and_keep_their_order) {
  constexpr int kLines = 2000;
  Launched run(folder_, shell({"-n", "11"},
                              "i=0; while [ $i -lt 2000 ]; do echo \"line $i of rank $RANK end\"; i=$((i+1)); done"));
  EXPECT_EQ(run.wait(), 0) << run.err();
  for (int rank = 0; rank < 11; ++rank) {
    const auto lines = run.lines_of_rank((rank < 10 ? "[ " : "[") + std::to_string(rank) + "] ");
    ASSERT_EQ(lines.size(), static_cast<std::size_t>(kLines)) << rank;
    for (int i = 0; i < kLines; ++i)
      ASSERT_EQ(lines[static_cast<std::size_t>(i)],
                "line " + std::to_string(i) + " of rank " + std::to_string(rank) + " end");
  }
}

TEST_F(LaunchTest, streams_stay_apart_and_a_last_line_gets_its_end) {
  Launched run(folder_, shell({"-n", "1"}, "echo to stdout; echo to stderr >&2; printf 'no end'; printf no >&2"));
  EXPECT_EQ(run.wait(), 0);
  EXPECT_TRUE(run.out().ends_with("[0] to stdout\n[0] no end\n")) << run.out();
  EXPECT_EQ(run.err(), "[0] to stderr\n[0] no\n");
}

TEST_F(LaunchTest, a_line_comes_at_once) {
  Launched run(folder_, shell({"-n", "2"}, "echo early; SLEEP"));
  EXPECT_TRUE(eventually([&] { return run.lines_of_rank("[0] ").size() == 1; }));
  run.send(SIGTERM);
  EXPECT_EQ(run.wait(), 128 + SIGTERM);
}

TEST_F(LaunchTest, logs_hold_both_streams_without_prefix) {
  const std::string logs = (folder_ / "deep/logs").string();
  Launched run(folder_, shell({"-n", "2", "--log-dir", logs}, "echo out $RANK; sleep 0.1; echo err $RANK >&2"));
  EXPECT_EQ(run.wait(), 0) << run.err();
  EXPECT_EQ(read_text(logs + "/rank0.log"), "out 0\nerr 0\n");
  EXPECT_EQ(read_text(logs + "/rank1.log"), "out 1\nerr 1\n");
}

TEST_F(LaunchTest, a_reader_that_stops_reading_does_not_make_it_deaf) {
  const std::string pipe = (folder_ / "pipe").string(), err = (folder_ / "err").string();
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  const std::string command =
      "exec '" TANDEM_LAUNCH "' -n 2 -- sh -c 'yes; sleep " + sleep_ + "' >'" + pipe + "' 2>'" + err + "'";
  pid_t pid = -1;
  std::vector<std::string> arguments{"sh", "-c", command};
  char* pointers[] = {arguments[0].data(), arguments[1].data(), arguments[2].data(), nullptr};
  ASSERT_EQ(posix_spawn(&pid, "/bin/sh", nullptr, nullptr, pointers, environ), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  kill(pid, SIGTERM);
  int status = 0;
  ASSERT_TRUE(eventually([&] { return waitpid(pid, &status, WNOHANG) == pid; }));
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGTERM) << read_text(err);
  close(reader);
}

TEST_F(LaunchTest, a_closed_stdout_ends_the_run) {
  const std::string command = "{ '" TANDEM_LAUNCH "' -n 2 -- sh -c 'yes'; echo $? >'" + (folder_ / "code").string() +
                              "'; } 2>'" + (folder_ / "err").string() + "' | head -n 1 >/dev/null";
  EXPECT_EQ(std::system(command.c_str()), 0);
  EXPECT_TRUE(eventually([&] { return read_text(folder_ / "code") == "141\n"; }));
  expect_contains(read_text(folder_ / "err"), "launch: error: stdout cannot be written any more (Broken pipe)");
}

// Whether the ranks have ended by then or not.
TEST_F(LaunchTest, output_that_a_full_disk_does_not_take_is_named) {
  const std::string out = (folder_ / "out").string(), err = (folder_ / "err").string();
  for (const char* rank : {"head -c 9000 /dev/zero", "head -c 9000 /dev/zero; sleep 1"}) {
    const int status = std::system(("ulimit -f 8; exec '" TANDEM_LAUNCH "' -n 1 -- sh -c '" + std::string(rank) +
                                    "' >'" + out + "' 2>'" + err + "'")
                                       .c_str());
    EXPECT_EQ(WEXITSTATUS(status), 1) << rank;
    expect_contains(read_text(err), "launch: error: stdout cannot be written any more (File too large); the ranks ");
  }
}

TEST_F(LaunchTest, two_at_once_and_twenty_in_a_row) {
  fs::create_directory(folder_ / "other");
  for (int i = 0; i < 10; ++i) {
    Launched one(folder_, shell({"-n", "2"}, "echo hello")), two(folder_ / "other", shell({"-n", "2"}, "echo hello"));
    EXPECT_EQ(one.wait(), 0) << one.err();
    EXPECT_EQ(two.wait(), 0) << two.err();
    EXPECT_EQ(one.lines_of_rank("[1] ").size(), 1U);
    EXPECT_EQ(two.lines_of_rank("[1] ").size(), 1U);
  }
}

TEST_F(LaunchTest, wrong_usage_is_exit_2_and_one_line) {
  const std::string plain = (folder_ / "plain").string();
  std::ofstream(plain) << "text";
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases{
      {{}, "-n is missing"},
      {{"-n", "2"}, "no program: it stands after --"},
      {{"-n", "2", "--"}, "no program"},
      {{"-n", "2", "/bin/true"}, "unexpected '/bin/true': the program stands after --"},
      {{"-n", "0", "--", "/bin/true"}, "-n '0': must be a whole number from 1"},
      {{"-n", "two", "--", "/bin/true"}, "-n 'two': must be a whole number"},
      {{"-n", "2", "--grace-s", "-1", "--", "/bin/true"}, "--grace-s '-1': must be seconds"},
      {{"-n", "2", "--gracs", "1", "--", "/bin/true"}, "unknown flag --gracs"},
      {{"-n", "2", "--", "no-such-program"}, "program no-such-program: not found in PATH"},
      {{"-n", "2", "--", "/no/such/program"}, "program /no/such/program: not found"},
      {{"-n", "2", "--", plain}, "plain: not executable"},
      {{"-n", "2", "--", folder_.string()}, ": a folder"},
      {{"-n", "2", "--nnodes", "2", "--", "/bin/true"}, "--nnodes 2 needs --master-addr"},
      {{"-n", "2", "--nnodes", "2", "--master-addr", "h", "--", "/bin/true"}, "--nnodes 2 needs --node-rank"},
      {{"-n", "2", "--nnodes", "2", "--master-addr", "h", "--node-rank", "2", "--", "/bin/true"},
       "--node-rank '2': must be a whole number from 0 to 1"},
      {{"-n", "2", "--nnodes", "2", "--master-addr", "h", "--node-rank", "0", "--max-restarts", "1", "--", "/bin/true"},
       "--max-restarts 1: with --nnodes 2 it cannot be"}};
  for (const auto& [arguments, cause] : cases) {
    Launched run(folder_, arguments);
    EXPECT_EQ(run.wait(), 2) << cause;
    EXPECT_EQ(run.out(), "");
    EXPECT_TRUE(run.err().starts_with("launch: error: ")) << run.err();
    EXPECT_EQ(lines_of(run.err()).size(), 1U) << run.err();
    expect_contains(run.err(), cause);
  }
}

TEST_F(LaunchTest, a_file_that_is_no_program_is_exit_2) {
  const std::string path = (folder_ / "broken").string();
  std::ofstream(path) << "neither ELF nor a script";
  fs::permissions(path, fs::perms::owner_all);
  Launched run(folder_, {"-n", "2", "--", path});
  EXPECT_EQ(run.wait(), 2);
  expect_contains(run.last_error(), "broken: cannot be executed (Exec format error)");
}

TEST_F(LaunchTest, help_groups_flags) {
  Launched run(folder_, {"--help"});
  EXPECT_EQ(run.wait(), 0);
  for (const char* text : {"Ranks:", "Failures:", "Several nodes:", "Exit codes", "--grace-s"})
    expect_contains(run.out(), text);
}

}  // namespace
}  // namespace tandem::launch
