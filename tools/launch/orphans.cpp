#include "tools/launch/orphans.h"

#include <sys/prctl.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

namespace tandem::launch {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

std::vector<pid_t> children_but(pid_t spared) {
  std::vector<pid_t> children;
  std::error_code error;
  for (const auto& task : fs::directory_iterator("/proc/self/task", error)) {
    std::ifstream file(task.path() / "children");
    for (pid_t child = 0; file >> child;)
      if (child != spared) children.push_back(child);
  }
  return children;
}

}  // namespace

void adopt_orphans() { prctl(PR_SET_CHILD_SUBREAPER, 1); }

void kill_orphans(pid_t spared) {
  const auto deadline = steady_clock::now() + milliseconds(2000);
  for (auto left = children_but(spared); !left.empty() && steady_clock::now() < deadline; left = children_but(spared)) {
    for (const pid_t child : left) kill(child, SIGKILL);
    for (const pid_t child : left) waitpid(child, nullptr, WNOHANG);
    std::this_thread::sleep_for(milliseconds(2));
  }
}

}  // namespace tandem::launch
