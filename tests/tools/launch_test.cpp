// `launch` from outside: what ranks see, what comes out, and how a run ends.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>

#include "tandem/distributed/stores/tcp_store.h"
#include "tandem/distributed/stores/tcp_store_server.h"
#include "tandem/distributed/watch.h"
#include "tests/tools/launch_process.h"

namespace tandem::launch {
namespace {

using testing::IsSubstring;

void expect_contains(const std::string& text, const std::string& part) { EXPECT_PRED_FORMAT2(IsSubstring, part, text); }

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

// Two launchers, as on two machines.
class LaunchNodesTest : public LaunchTest {
 protected:
  LaunchNodesTest() {
    fs::create_directory(folder_ / "other");
    port_ = std::to_string(distributed::TcpStoreServer("127.0.0.1", 0).port());  // free again
  }

  std::vector<std::string> node(const std::string& rank, const std::string& script, const std::string& ranks = "1") {
    return shell({"-n", ranks, "--nnodes", "2", "--node-rank", rank, "--master-addr", "127.0.0.1", "--master-port",
                  port_, "--grace-s", "0.2"},
                 script);
  }

  std::string port_;
};

TEST_F(LaunchNodesTest, ranks_are_numbered_through) {
  const std::string script = "echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_PORT; sleep 1";
  Launched second(folder_ / "other", node("1", script, "2")), first(folder_, node("0", script, "2"));
  EXPECT_EQ(first.wait(), 0) << first.err();
  EXPECT_EQ(second.wait(), 0) << second.err();
  EXPECT_EQ(first.lines_of_rank("[1] "), std::vector{"1 4 1 2 " + port_});
  EXPECT_EQ(second.lines_of_rank("[2] "), std::vector{"2 4 0 2 " + port_});
}

TEST_F(LaunchNodesTest, the_wait_for_node_0_can_be_ended) {
  Launched run(folder_, node("1", "exit 0"));
  EXPECT_TRUE(eventually([&] { return run.err() == "launch: looks for node 0 on 127.0.0.1\n"; }));
  run.send(SIGINT);
  EXPECT_EQ(run.wait(), -SIGINT);
}

TEST_F(LaunchNodesTest, a_failure_reaches_the_other_node) {
  Launched first(folder_, node("0", "SLEEP"));
  ASSERT_TRUE(eventually([&] { return sleepers(sleep_) == 1; }));
  Launched second(folder_ / "other", node("1", "exit 7"));
  EXPECT_EQ(second.wait(), 7);
  EXPECT_EQ(first.wait(), 3);
  EXPECT_EQ(first.last_error(), "launch: error: rank 1 ended with exit code 7; the other ranks were stopped");
}

TEST_F(LaunchNodesTest, launchers_must_agree) {
  Launched first(folder_, node("0", "SLEEP"));
  ASSERT_TRUE(eventually([&] { return sleepers(sleep_) == 1; }));
  Launched more(folder_ / "other", node("1", "exit 0", "3"));
  EXPECT_EQ(more.wait(), 2);
  expect_contains(more.last_error(), "told of 2 nodes with 3 ranks each, another one of 2 nodes with 1 ranks each");
  Launched second(folder_ / "other", node("1", "SLEEP"));
  ASSERT_TRUE(eventually([&] { return sleepers(sleep_) == 2; }));
  fs::create_directory(folder_ / "third");
  Launched twice(folder_ / "third", node("1", "exit 0"));
  EXPECT_EQ(twice.wait(), 2);
  expect_contains(twice.last_error(), "--node-rank 1: another launcher is that node");
  Launched again(folder_ / "third", node("0", "exit 0"));
  EXPECT_EQ(again.wait(), 1);
  expect_contains(again.last_error(), "port " + port_);
  second.send(SIGTERM);
  first.send(SIGTERM);
  EXPECT_EQ(second.wait(), 128 + SIGTERM);
  EXPECT_EQ(first.wait(), 128 + SIGTERM);
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

TEST_F(LaunchTest, the_first_failure_is_named_and_the_others_are_stopped) {
  Launched run(folder_, shell({"-n", "3", "--grace-s", "0.2"},
                              "if [ $RANK = 1 ]; then echo 'prog: error: no data' >&2; exit 7; fi; SLEEP"));
  EXPECT_EQ(run.wait(), 7);
  EXPECT_EQ(run.last_error(),
            "launch: error: rank 1 ended with exit code 7: prog: error: no data; the other ranks were stopped");
  EXPECT_EQ(sleepers(sleep_), 0);
}

TEST_F(LaunchTest, others_may_end_by_themselves) {
  Launched run(folder_, shell({"-n", "2", "--grace-s", "50"},
                              "if [ $RANK = 1 ]; then exit 7; fi; sleep 0.5; echo in good order"));
  EXPECT_EQ(run.wait(), 7);
  EXPECT_EQ(run.lines_of_rank("[0] "), std::vector<std::string>{"in good order"});
  expect_contains(run.last_error(), "rank 1 ended with exit code 7; the other ranks have ended; see its output");
}

TEST_F(LaunchTest, who_ignores_sigterm_is_killed) {
  Launched run(folder_, shell({"-n", "2", "--grace-s", "0"},
                              "trap '' TERM; if [ $RANK = 1 ]; then sleep 0.5; exit 7; fi; "
                              "while true; do sleep 0.1; done"));
  EXPECT_EQ(run.wait(), 7);
}

TEST_F(LaunchTest, an_echo_does_not_hide_the_first_failure) {
  Launched run(folder_, shell({"-n", "2"}, "if [ $RANK = 0 ]; then exit 3; fi; sleep 0.5; exit 9"));
  EXPECT_EQ(run.wait(), 9);
  expect_contains(run.last_error(), "launch: error: rank 1 ended with exit code 9");
}

TEST_F(LaunchTest, only_echoes_are_exit_3) {
  Launched run(folder_, shell({"-n", "2"}, "echo 'prog: error: rank 7 died' >&2; exit 3"));
  EXPECT_EQ(run.wait(), 3);
  expect_contains(run.last_error(), ": prog: error: rank 7 died; the other ranks have ended");
}

TEST_F(LaunchTest, a_killed_rank_is_128_and_the_signal) {
  Launched run(folder_, shell({"-n", "2", "--grace-s", "0.2"}, "if [ $RANK = 1 ]; then kill -9 $$; fi; SLEEP"));
  EXPECT_EQ(run.wait(), 128 + SIGKILL);
  expect_contains(run.last_error(),
                  "launch: error: rank 1 was killed by signal 9 (Killed); the other ranks were stopped");
}

TEST_F(LaunchTest, a_stopped_rank_is_named_where_others_waited_for_it) {
  Launched run(folder_, shell({"-n", "3"}, "if [ $RANK = 2 ]; then kill -STOP $$; fi; sleep 0.5; exit 3"));
  EXPECT_EQ(run.wait(), 128 + SIGKILL);
  expect_contains(run.last_error(), "launch: error: rank 2 is stopped (SIGSTOP)");
}

// The store of a run that goes on.
std::unique_ptr<distributed::Store> store_of(const Launched& run) {
  const std::string start = "store     tcp://127.0.0.1:";
  EXPECT_TRUE(eventually([&] { return run.out().find(start) != std::string::npos; }));
  const int port = std::atoi(run.out().substr(run.out().find(start) + start.size()).c_str());
  return std::make_unique<distributed::TcpStore>("127.0.0.1", static_cast<std::uint16_t>(port), kPatience);
}

TEST_F(LaunchTest, a_rank_that_leaves_early_is_a_failure_where_ranks_have_met) {
  Launched run(folder_, shell({"-n", "2", "--grace-s", "0.2"}, "if [ $RANK = 0 ]; then exit 0; fi; SLEEP"));
  store_of(run)->set("world_size", "2");
  EXPECT_EQ(run.wait(), 1);
  expect_contains(run.last_error(),
                  "launch: error: rank 0 left before the end (exit code 0); the other ranks were stopped");
}

TEST_F(LaunchTest, a_rank_that_said_goodbye_may_leave) {
  Launched run(folder_, shell({"-n", "2", "--grace-s", "0"}, "while [ ! -e '" + (folder_ / "go").string() +
                                                                 "' ]; do sleep 0.05; done; "
                                                                 "if [ $RANK = 0 ]; then exit 0; fi; sleep 1"));
  const auto store = store_of(run);
  store->set("world_size", "2");
  store->set(distributed::goodbye_key(0), "");
  std::ofstream(folder_ / "go") << "";
  EXPECT_EQ(run.wait(), 0) << run.err();
}

TEST_F(LaunchTest, the_cause_is_in_the_store_while_others_still_run) {
  Launched run(folder_, shell({"-n", "2", "--grace-s", "50"}, "if [ $RANK = 1 ]; then exit 7; fi; SLEEP"));
  const auto store = store_of(run);
  const auto text = store->get(distributed::kFailureKey, kPatience);
  ASSERT_TRUE(text);
  const auto failure = distributed::Failure::decode(*text);
  EXPECT_EQ(failure.rank, 1);
  EXPECT_EQ(failure.cause, "rank 1 ended with exit code 7");
  run.send(SIGINT);
  run.send(SIGTERM);
  EXPECT_EQ(run.wait(), 7);
}

TEST_F(LaunchTest, signals_are_passed_on_once) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    const std::string name = number == SIGINT ? "INT" : number == SIGTERM ? "TERM" : "HUP";
    Launched run(folder_, shell({"-n", "2"}, "trap 'echo got it; exit 0' " + name +
                                                 "; echo ready; while true; do sleep 0.05; done"));
    EXPECT_TRUE(eventually([&] { return run.lines_of_rank("[0] ").size() + run.lines_of_rank("[1] ").size() == 2; }));
    run.send(number);
    EXPECT_EQ(run.wait(), 128 + number);
    for (const std::string prefix : {"[0] ", "[1] "})
      EXPECT_EQ(run.lines_of_rank(prefix), (std::vector<std::string>{"ready", "got it"}));
    expect_contains(run.last_error(), "launch: error: ended by signal " + std::to_string(number));
  }
}

TEST_F(LaunchTest, the_second_signal_kills) {
  Launched run(folder_, shell({"-n", "2"}, "trap 'echo got it' INT; echo ready; while true; do sleep 0.05; done"));
  EXPECT_TRUE(eventually([&] { return run.lines_of_rank("[0] ").size() + run.lines_of_rank("[1] ").size() == 2; }));
  run.send(SIGINT);
  EXPECT_TRUE(eventually([&] { return run.lines_of_rank("[0] ").size() + run.lines_of_rank("[1] ").size() == 4; }));
  run.send(SIGINT);
  EXPECT_EQ(run.wait(), 128 + SIGINT);
}

TEST_F(LaunchTest, nothing_outlives_a_launcher_that_is_killed) {
  Launched run(folder_, shell({"-n", "2"}, "trap '' HUP TERM INT; SLEEP & SLEEP & wait"));
  ASSERT_TRUE(eventually([&] { return sleepers(sleep_) == 4; }));
  run.send(SIGKILL);
  EXPECT_EQ(run.wait(), -SIGKILL);
  EXPECT_TRUE(eventually([&] { return sleepers(sleep_) == 0; }, std::chrono::seconds(10)));
}

TEST_F(LaunchTest, grandchildren_go_with_their_rank) {
  Launched run(folder_, shell({"-n", "2"}, "SLEEP & exit 0"));
  EXPECT_EQ(run.wait(), 0);
  EXPECT_TRUE(eventually([&] { return sleepers(sleep_) == 0; }));
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

TEST_F(LaunchTest, ranks_are_started_again) {
  const std::string logs = (folder_ / "logs").string();
  Launched run(folder_, shell({"-n", "2", "--max-restarts", "3", "--grace-s", "0.1", "--log-dir", logs},
                              "echo try ${TANDEM_RESTART-first}; [ \"$TANDEM_RESTART\" = 2 ] && exit 0; "
                              "if [ $RANK = 1 ]; then exit 7; fi; SLEEP"));
  EXPECT_EQ(run.wait(), 0) << run.err();
  EXPECT_EQ(read_text(logs + "/rank1.log"), "try first\ntry 1\ntry 2\n");
  expect_contains(run.err(), "launch: rank 1 ended with exit code 7");
  expect_contains(run.err(), "launch: all ranks are started again: restart 2 of 3");
  EXPECT_EQ(sleepers(sleep_), 0);
}

TEST_F(LaunchTest, restarts_come_to_an_end) {
  Launched run(folder_, shell({"-n", "1", "--max-restarts", "2"}, "exit 7"));
  EXPECT_EQ(run.wait(), 7);
  EXPECT_EQ(lines_of(run.err()).size(), 5U) << run.err();
}

TEST_F(LaunchTest, wrong_usage_is_exit_2_and_one_line) {
  const std::string plain = (folder_ / "plain").string();
  std::ofstream(plain) << "text";
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases{
      {{}, "-n is missing"},
      {{"-n", "2"}, "no program: it stands after --"},
      {{"-n", "2", "--"}, "no program"},
      {{"-n", "2", "/bin/true"}, "unexpected '/bin/true': the program stands after --"},
      {{"-n", "0", "--", "/bin/true"}, "-n '0': allowed is a whole number from 1"},
      {{"-n", "two", "--", "/bin/true"}, "-n 'two': allowed is a whole number"},
      {{"-n", "2", "--grace-s", "-1", "--", "/bin/true"}, "--grace-s '-1': allowed are seconds"},
      {{"-n", "2", "--gracs", "1", "--", "/bin/true"}, "unknown flag --gracs"},
      {{"-n", "2", "--", "no-such-program"}, "program no-such-program: not found in PATH"},
      {{"-n", "2", "--", "/no/such/program"}, "program /no/such/program: not found"},
      {{"-n", "2", "--", plain}, "plain: not executable"},
      {{"-n", "2", "--", folder_.string()}, ": a folder"},
      {{"-n", "2", "--nnodes", "2", "--", "/bin/true"}, "--nnodes 2 needs --master-addr"},
      {{"-n", "2", "--nnodes", "2", "--master-addr", "h", "--", "/bin/true"}, "--nnodes 2 needs --node-rank"},
      {{"-n", "2", "--nnodes", "2", "--master-addr", "h", "--node-rank", "2", "--", "/bin/true"},
       "--node-rank '2': allowed is a whole number from 0 to 1"},
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
