// Runs the program `launch` as a user does, in a folder of its own, and looks at what its ranks leave.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/tools/default_signals.h"

namespace tandem::launch {

namespace fs = std::filesystem;

/// Far above what any step takes, also under a sanitizer on a busy machine.
constexpr std::chrono::seconds kPatience{60};

inline std::string read_text(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

inline void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_PRED_FORMAT2(testing::IsSubstring, part, text);
}

/// Looks until `condition` holds; false where it did not come to that.
inline bool eventually(const std::function<bool()>& condition, std::chrono::milliseconds patience = kPatience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

/// Processes `sleep SECONDS`, where SECONDS is a number that nobody else uses.
inline int sleepers(const std::string& seconds) {
  int count = 0;
  const std::string wanted = std::string("sleep") + '\0' + seconds + '\0';
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error))
    if (read_text(entry.path() / "cmdline") == wanted) ++count;
  return count;
}

/// A launch that runs.
class Launched {
 public:
  explicit Launched(const fs::path& folder, const std::vector<std::string>& arguments, bool has_own_group = false)
      : out_(folder / "stdout"), err_(folder / "stderr") {
    std::vector<std::string> all{TANDEM_LAUNCH};
    all.insert(all.end(), arguments.begin(), arguments.end());
    std::vector<char*> pointers;
    for (std::string& argument : all) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, out_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_addopen(&actions, 2, err_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    DefaultSignals signals;
    if (has_own_group) signals.use_own_group();
    if (posix_spawn(&pid_, TANDEM_LAUNCH, &actions, signals.get(), pointers.data(), environ) != 0) pid_ = -1;
    posix_spawn_file_actions_destroy(&actions);
    EXPECT_GT(pid_, 0);
  }
  ~Launched() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Launched(const Launched&) = delete;
  Launched& operator=(const Launched&) = delete;

  /// The exit code, or minus the signal.
  int wait() {
    int status = 0;
    const bool has_ended = eventually([&] { return waitpid(pid_, &status, WNOHANG) == pid_; });
    EXPECT_TRUE(has_ended) << out() << err();
    if (!has_ended) return -1000;
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  void send(int signal) const { kill(pid_, signal); }
  pid_t pid() const { return pid_; }

  std::string out() const { return read_text(out_); }
  std::string err() const { return read_text(err_); }
  std::string last_error() const {
    const auto lines = lines_of(err());
    return lines.empty() ? "" : lines.back();
  }
  /// The lines of rank `prefix` ("[1] ") in stdout, without it.
  std::vector<std::string> lines_of_rank(const std::string& prefix) const {
    std::vector<std::string> lines;
    for (const std::string& line : lines_of(out()))
      if (line.starts_with(prefix)) lines.push_back(line.substr(prefix.size()));
    return lines;
  }

 private:
  fs::path out_, err_;
  pid_t pid_ = -1;
};

class LaunchTest : public testing::Test {
 protected:
  LaunchTest() {
    std::string name = (fs::temp_directory_path() / "tandem-launch-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
    folder_ = name;
    static int tests = 0;
    sleep_ = "1000." + std::to_string(getpid()) + std::to_string(++tests);
  }
  ~LaunchTest() override { fs::remove_all(folder_); }

  /// `script` for /bin/sh on each rank; SLEEP in it is a long sleep that sleepers(sleep_) counts.
  std::vector<std::string> shell(std::vector<std::string> flags, std::string script) const {
    for (std::size_t at; (at = script.find("SLEEP")) != std::string::npos;) script.replace(at, 5, "sleep " + sleep_);
    for (const std::string& argument : {std::string("--"), std::string("/bin/sh"), std::string("-c"), script})
      flags.push_back(argument);
    return flags;
  }

  fs::path folder_;
  std::string sleep_;  ///< a number of seconds that nobody else uses
};

}  // namespace tandem::launch
