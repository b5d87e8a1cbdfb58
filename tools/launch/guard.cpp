#include "tools/launch/guard.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <set>

#include "tandem/core/error.h"

namespace tandem::launch {
namespace {

constexpr int kPatience = 50;                 // looks at the groups ...
constexpr timespec kBetween{0, 100'000'000};  // ... so far apart, before they are killed: 5 s

struct Message {
  enum class Kind : int { add, remove, quit } kind;
  pid_t group;
};

// What the pipe says until it closes. Returns whether the launcher took its leave.
bool listen(int pipe, std::set<pid_t>& groups) {
  for (;;) {
    Message message{};
    const ssize_t count = read(pipe, &message, sizeof message);
    if (count < 0 && errno == EINTR) continue;
    if (count != sizeof message) return false;
    if (message.kind == Message::Kind::quit) return true;
    if (message.kind == Message::Kind::add) groups.insert(message.group);
    if (message.kind == Message::Kind::remove) groups.erase(message.group);
  }
}

[[noreturn]] void run(int pipe) {
  setsid();
  prctl(PR_SET_NAME, "launch-guard");
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);  // a scheduler sends them to every process that it finds
  // Who reads the launcher's output must not wait for this process.
  const int nothing = open("/dev/null", O_RDWR);
  for (int fd = 0; fd < 3; ++fd) dup2(nothing, fd);
  if (pipe > 3) close_range(3, static_cast<unsigned>(pipe) - 1, 0);
  close_range(static_cast<unsigned>(pipe) + 1, ~0U, 0);

  std::set<pid_t> groups;
  if (listen(pipe, groups)) _exit(0);
  for (int i = 0; i < kPatience && !groups.empty(); ++i) {
    std::erase_if(groups, [](pid_t group) { return kill(-group, 0) != 0 && errno == ESRCH; });
    if (!groups.empty()) nanosleep(&kBetween, nullptr);
  }
  for (const pid_t group : groups) kill(-group, SIGKILL);
  _exit(0);
}

// Less than PIPE_BUF bytes are written whole. A guard that somebody killed is not missed: SIGPIPE is ignored.
void tell(int pipe, Message message) {
  while (write(pipe, &message, sizeof message) < 0 && errno == EINTR) continue;
}

}  // namespace

Guard::Guard() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) core::fail("cannot make a pipe: {}", std::strerror(errno));
  process_ = fork();
  if (process_ < 0) {
    const int error = errno;
    close(ends[0]);
    close(ends[1]);
    core::fail("cannot start a process: {}", std::strerror(error));
  }
  if (process_ == 0) {
    close(ends[1]);
    run(ends[0]);
  }
  close(ends[0]);
  pipe_ = ends[1];
}

Guard::~Guard() {
  tell(pipe_, {Message::Kind::quit, 0});
  close(pipe_);
  while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) continue;
}

void Guard::add(pid_t group) const { tell(pipe_, {Message::Kind::add, group}); }
void Guard::remove(pid_t group) const { tell(pipe_, {Message::Kind::remove, group}); }

}  // namespace tandem::launch
