#include "tools/launch/rank_process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>

#include "tools/launch/options.h"

namespace tandem::launch {
namespace {

class Pipe {
 public:
  Pipe() {
    if (pipe2(ends_.data(), O_CLOEXEC) != 0) core::fail("cannot make a pipe: {}", std::strerror(errno));
  }
  ~Pipe() {
    close_read();
    close_write();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  int read_end() const { return ends_[0]; }
  int write_end() const { return ends_[1]; }
  void close_read() { close_end(0); }
  void close_write() { close_end(1); }
  int take_read_end() { return std::exchange(ends_[0], -1); }

 private:
  void close_end(std::size_t end) {
    if (ends_[end] >= 0) close(ends_[end]);
    ends_[end] = -1;
  }

  std::array<int, 2> ends_{-1, -1};
};

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> all;
  all.reserve(texts.size() + 1);
  for (const std::string& text : texts) all.push_back(const_cast<char*>(text.c_str()));
  all.push_back(nullptr);
  return all;
}

// Until there is something, or the other end is closed.
ssize_t read_patiently(int fd, void* data, std::size_t size) {
  ssize_t count = 0;
  do {
    count = read(fd, data, size);
  } while (count < 0 && errno == EINTR);
  return count;
}

// After fork in a process with threads: system calls only.
struct Child {
  const char* program;
  char* const* arguments;
  char* const* environment;
  const sigset_t* signal_mask;
  int out, err;        // to write to
  int start;           // says a byte once the guard knows this process; closed: the launcher is gone
  int start_to_close;  // the other end
  int failure;         // takes the number of the error

  [[noreturn]] void run() const {
    close(start_to_close);
    setpgid(0, 0);
    char go = 0;
    if (read_patiently(start, &go, 1) != 1) _exit(127);
    const int nothing = open("/dev/null", O_RDONLY);
    dup2(nothing, STDIN_FILENO);
    if (nothing != STDIN_FILENO) close(nothing);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    for (const int number : {SIGPIPE, SIGXFSZ}) signal(number, SIG_DFL);  // the launcher ignores them
    sigprocmask(SIG_SETMASK, signal_mask, nullptr);
    execve(program, arguments, environment);
    const int error = errno;
    if (write(failure, &error, sizeof error) < 0) _exit(126);
    _exit(127);
  }
};

}  // namespace

RankProcess::RankProcess(const std::string& program, const std::vector<std::string>& arguments,
                         const std::vector<std::string>& environment, const sigset_t& signal_mask, const Guard& guard)
    : guard_(guard) {
  Pipe out, err, start, failure;
  const std::vector<char*> argument_pointers = pointers(arguments), environment_pointers = pointers(environment);
  const Child child{.program = program.c_str(),
                    .arguments = argument_pointers.data(),
                    .environment = environment_pointers.data(),
                    .signal_mask = &signal_mask,
                    .out = out.write_end(),
                    .err = err.write_end(),
                    .start = start.read_end(),
                    .start_to_close = start.write_end(),
                    .failure = failure.write_end()};
  pid_ = fork();
  if (pid_ < 0) core::fail("cannot start a process: {}", std::strerror(errno));
  if (pid_ == 0) child.run();
  setpgid(pid_, pid_);  // here too: nobody knows who comes first
  guard_.add(pid_);
  start.close_read();
  failure.close_write();
  const bool has_started = write(start.write_end(), "", 1) == 1;
  int error = 0;
  if (!has_started || read_patiently(failure.read_end(), &error, sizeof error) > 0) {
    send_to_group(SIGKILL);
    waitpid(pid_, nullptr, 0);
    guard_.remove(pid_);
    if (!has_started) core::fail("a process was killed before it could start {}", program);
    fail_usage("program {}: cannot be executed ({})", program, std::strerror(error));
  }
  out_ = out.take_read_end();
  err_ = err.take_read_end();
  for (const int fd : {out_, err_}) fcntl(fd, F_SETFL, O_NONBLOCK);
}

RankProcess::~RankProcess() {
  close_pipes();
  if (pid_ < 0) return;
  send_to_group(SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) continue;
  guard_.remove(pid_);
}

void RankProcess::close_pipe(int fd) {
  for (int* pipe : {&out_, &err_}) {
    if (*pipe != fd || fd < 0) continue;
    close(fd);
    *pipe = -1;
  }
}

void RankProcess::close_pipes() {
  close_pipe(out_);
  close_pipe(err_);
}

std::optional<Ending> RankProcess::take_ending() {
  if (pid_ < 0) return std::nullopt;
  siginfo_t info{};
  // Left as a zombie for now, so that the group's number is nobody else's.
  if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
    return std::nullopt;
  send_to_group(SIGKILL);
  guard_.remove(pid_);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) continue;
  pid_ = -1;
  if (info.si_code == CLD_EXITED) return Ending{.code = info.si_status};
  return Ending{.signal = info.si_status};
}

void RankProcess::send(int signal) const {
  if (pid_ > 0) kill(pid_, signal);
}

void RankProcess::send_to_group(int signal) const {
  if (pid_ > 0) kill(-pid_, signal);
}

std::vector<std::string> RankProcess::state() const {
  if (pid_ < 0) return {};
  std::ifstream file("/proc/" + std::to_string(pid_) + "/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t name_end = text.rfind(") ");  // the name before may hold anything
  if (name_end == std::string::npos) return {};
  std::istringstream fields(text.substr(name_end + 2));
  return {std::istream_iterator<std::string>(fields), {}};
}

bool RankProcess::is_stopped() const {
  const auto fields = state();
  return !fields.empty() && fields[0] == "T";
}

double RankProcess::cpu_seconds() const {
  constexpr std::size_t kUser = 11,
                        kSystem = 12;  // fields 14 and 15 of proc(5), which counts from the process's number
  const auto fields = state();
  if (fields.size() <= kSystem) return 0;
  return (std::strtod(fields[kUser].c_str(), nullptr) + std::strtod(fields[kSystem].c_str(), nullptr)) /
         static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace tandem::launch
