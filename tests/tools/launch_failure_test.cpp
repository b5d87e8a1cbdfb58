// How a run under `launch` ends: failures, signals, restarts.
#include <sys/stat.h>

#include <memory>

#include "tandem/distributed/stores/tcp_store.h"
#include "tandem/distributed/watch.h"
#include "tests/tools/launch_process.h"

namespace tandem::launch {
namespace {

// Later than a moment, within which a repeat counts once.
constexpr std::chrono::milliseconds kLater{1200};

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
  std::this_thread::sleep_for(kLater);
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

TEST_F(LaunchTest, a_later_second_signal_kills) {
  Launched run(folder_, shell({"-n", "2"}, "trap 'echo got it' INT; echo ready; while true; do sleep 0.05; done"));
  EXPECT_TRUE(eventually([&] { return run.lines_of_rank("[0] ").size() + run.lines_of_rank("[1] ").size() == 2; }));
  run.send(SIGINT);
  EXPECT_TRUE(eventually([&] { return run.lines_of_rank("[0] ").size() + run.lines_of_rank("[1] ").size() == 4; }));
  std::this_thread::sleep_for(kLater);
  run.send(SIGINT);
  EXPECT_EQ(run.wait(), 128 + SIGINT);
}

TEST_F(LaunchTest, ranks_that_make_no_progress_after_a_signal_are_killed) {
  Launched run(folder_, shell({"-n", "2", "--stop-timeout-s", "0.5"}, "trap '' TERM; echo ready; SLEEP"));
  EXPECT_TRUE(eventually([&] { return run.lines_of_rank("[0] ").size() + run.lines_of_rank("[1] ").size() == 2; }));
  run.send(SIGTERM);
  EXPECT_EQ(run.wait(), 128 + SIGTERM);
  EXPECT_EQ(run.last_error(),
            "launch: error: ended by signal 15 (Terminated), as were the ranks; ranks that made no progress for 0.5 s "
            "(--stop-timeout-s) were killed");
}

TEST_F(LaunchTest, ranks_that_compute_after_a_signal_are_waited_for) {
  Launched run(folder_, shell({"-n", "1", "--stop-timeout-s", "2"},
                              "trap 'told=1' TERM; echo ready; until [ \"$told\" ]; do sleep 0.05; done; "
                              "end=$(($(date +%s) + 4)); while [ $(date +%s) -lt $end ]; do "
                              "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; done; echo stopped"));
  EXPECT_TRUE(eventually([&] { return run.lines_of_rank("[0] ").size() == 1; }));
  run.send(SIGTERM);
  EXPECT_EQ(run.wait(), 128 + SIGTERM);
  EXPECT_EQ(run.lines_of_rank("[0] "), (std::vector<std::string>{"ready", "stopped"})) << run.err();
}

TEST_F(LaunchTest, a_failure_while_ranks_stop_is_told) {
  Launched run(folder_, shell({"-n", "2"},
                              "trap 'echo \"p: error: disk full\" >&2; exit 1' TERM; echo ready; "
                              "while true; do sleep 0.05; done"));
  EXPECT_TRUE(eventually([&] { return run.lines_of_rank("[0] ").size() + run.lines_of_rank("[1] ").size() == 2; }));
  run.send(SIGTERM);
  EXPECT_EQ(run.wait(), 128 + SIGTERM);
  EXPECT_EQ(run.last_error(),
            "launch: error: ended by signal 15 (Terminated), as were the ranks; rank 0 ended with exit code 1: p: "
            "error: disk full");
}

TEST_F(LaunchTest, ranks_that_end_by_a_user_signal_were_asked_to) {
  Launched run(folder_, shell({"-n", "2", "--max-restarts", "3"},
                              "trap 'exit 138' USR1; echo ready; while true; do sleep 0.05; done"));
  EXPECT_TRUE(eventually([&] { return run.lines_of_rank("[0] ").size() + run.lines_of_rank("[1] ").size() == 2; }));
  run.send(SIGUSR1);
  EXPECT_EQ(run.wait(), 128 + SIGUSR1);
  EXPECT_EQ(run.last_error(), "launch: error: ended by signal 10 (User defined signal 1), as were the ranks");
}

TEST_F(LaunchTest, what_was_ignored_at_the_start_stays_ignored) {
  const std::string command = "trap '' HUP INT; exec '" TANDEM_LAUNCH
                              "' -n 1 -- sh -c 'echo ready; read line <go; echo went on' >stdout 2>stderr";
  ASSERT_EQ(mkfifo((folder_ / "go").c_str(), 0600), 0);
  pid_t pid = -1;
  std::vector<std::string> arguments{"sh", "-c", "cd '" + folder_.string() + "' && " + command};
  char* pointers[] = {arguments[0].data(), arguments[1].data(), arguments[2].data(), nullptr};
  ASSERT_EQ(posix_spawn(&pid, "/bin/sh", nullptr, nullptr, pointers, environ), 0);
  ASSERT_TRUE(eventually([&] { return read_text(folder_ / "stdout").find("ready") != std::string::npos; }));
  for (const int number : {SIGHUP, SIGINT}) kill(pid, number);
  std::ofstream(folder_ / "go") << "go\n";
  int status = 0;
  ASSERT_TRUE(eventually([&] { return waitpid(pid, &status, WNOHANG) == pid; }));
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << read_text(folder_ / "stderr");
  expect_contains(read_text(folder_ / "stdout"), "[0] went on");
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

TEST_F(LaunchTest, who_asks_for_the_end_after_a_failure_wants_no_restart) {
  // Rank 1 asks for it when the failure is known: when it is told to end.
  const std::string ready = (folder_ / "ready").string();
  Launched run(folder_, shell({"-n", "2", "--max-restarts", "3", "--grace-s", "0.1"},
                              "echo try; if [ $RANK = 0 ]; then while [ ! -e " + ready +
                                  " ]; do sleep 0.05; done; exit 7; fi; trap 'kill -INT $PPID' TERM; touch " + ready +
                                  "; while true; do sleep 0.05; done"));
  EXPECT_EQ(run.wait(), 7) << run.err();
  EXPECT_EQ(run.lines_of_rank("[0] ").size(), 1U) << run.err();
  expect_contains(run.last_error(), "launch: error: rank 0 ended with exit code 7");
}

TEST_F(LaunchTest, what_went_into_a_session_of_its_own_goes_too) {
  Launched run(folder_, shell({"-n", "2"}, "setsid SLEEP & sleep 0.3; if [ $RANK = 1 ]; then exit 4; fi"));
  EXPECT_EQ(run.wait(), 4) << run.err();
  EXPECT_EQ(sleepers(sleep_), 0);
}

TEST_F(LaunchTest, other_signals_are_passed_on_and_end_nothing) {
  Launched run(folder_,
               shell({"-n", "2"}, "trap 'echo heard; exit 0' USR1; echo ready; while true; do sleep 0.05; done"));
  EXPECT_TRUE(eventually([&] {
    return lines_of(run.out()).size() >= 2 && run.lines_of_rank("[0] ").size() == 1 &&
           run.lines_of_rank("[1] ").size() == 1;
  }));
  run.send(SIGUSR1);
  EXPECT_EQ(run.wait(), 0) << run.err();
  for (const char* rank : {"[0] ", "[1] "})
    EXPECT_EQ(run.lines_of_rank(rank), (std::vector<std::string>{"ready", "heard"}));
}

}  // namespace
}  // namespace tandem::launch
