// Ranks as processes, started one by one as a user with several terminals does: no launcher.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/held_port.h"
#include "tests/tools/default_signals.h"

namespace tandem::train {

class RankProcesses {
 public:
  using Clock = std::chrono::steady_clock;

  struct End {
    int code = -1;  ///< exit code, or minus the signal
    Clock::time_point when;
    std::string last_error;  ///< last line of stderr
  };

  explicit RankProcesses(std::filesystem::path folder) : folder_(std::move(folder)) {}
  ~RankProcesses() {
    for (std::size_t i = 0; i < ranks_.size(); ++i)
      if (!ranks_[i].end) end(i, SIGKILL);
  }
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  /// `command`: program and arguments as in a shell, with the test's folder as the current one.
  void start(const std::string& command) {
    Rank rank{.pid = -1, .err = folder_ / ("stderr" + std::to_string(ranks_.size())), .end = {}};
    const std::string in_folder = "cd '" + folder_.string() + "' && exec " + command;
    std::string shell = "/bin/sh", flag = "-c", script = in_folder;
    char* arguments[] = {shell.data(), flag.data(), script.data(), nullptr};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 2, rank.err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const DefaultSignals signals;
    if (posix_spawn(&rank.pid, "/bin/sh", &actions, signals.get(), arguments, environ) != 0) rank.pid = -1;
    posix_spawn_file_actions_destroy(&actions);
    EXPECT_GT(rank.pid, 0);
    ranks_.push_back(rank);
  }

  /// Waits until this one has ended.
  const End& wait(std::size_t i, std::chrono::seconds patience = std::chrono::seconds(120)) {
    Rank& rank = ranks_[i];
    const auto deadline = Clock::now() + patience;
    while (!rank.end) {
      int status = 0;
      if (waitpid(rank.pid, &status, WNOHANG) == rank.pid) {
        note_end(rank, status);
      } else if (Clock::now() > deadline) {
        ADD_FAILURE() << "process " << i << " does not end: " << text_of(rank.err);
        end(i, SIGKILL);
      } else {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    }
    return *rank.end;
  }
  void end(std::size_t i, int signal) {
    kill(ranks_[i].pid, signal);
    int status = 0;
    waitpid(ranks_[i].pid, &status, 0);
    note_end(ranks_[i], status);
  }
  void send(std::size_t i, int signal) const { kill(ranks_[i].pid, signal); }
  pid_t pid(std::size_t i) const { return ranks_[i].pid; }

  /// Waits until this one is stopped by SIGSTOP; when.
  Clock::time_point wait_stopped(std::size_t i) const {
    const auto deadline = Clock::now() + std::chrono::seconds(120);
    const std::string stat = "/proc/" + std::to_string(ranks_[i].pid) + "/stat";
    while (Clock::now() < deadline) {
      const std::string text = text_of(stat);
      const std::size_t name_end = text.rfind(") ");
      if (name_end != text.npos && text[name_end + 2] == 'T') return Clock::now();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    ADD_FAILURE() << "process " << i << " was not stopped";
    return Clock::now();
  }
  std::string errors(std::size_t i) const { return text_of(ranks_[i].err); }

 private:
  struct Rank {
    pid_t pid;
    std::filesystem::path err;
    std::optional<End> end;
  };

  static std::string text_of(const std::filesystem::path& path) {
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }

  static void note_end(Rank& rank, int status) {
    rank.end = End{
        .code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), .when = Clock::now(), .last_error = {}};
    std::istringstream lines(text_of(rank.err));
    for (std::string line; std::getline(lines, line);) rank.end->last_error = line;
  }

  std::filesystem::path folder_;
  std::vector<Rank> ranks_;
};

}  // namespace tandem::train
