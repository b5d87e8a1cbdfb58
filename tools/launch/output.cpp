#include "tools/launch/output.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace tandem::launch {
namespace {

constexpr std::size_t kFull = 256 * 1024;

// A pipe that poll calls writable takes PIPE_BUF bytes.
std::size_t chunk_of(int fd) {
  struct stat status {};
  return fstat(fd, &status) == 0 && S_ISREG(status.st_mode) ? 64 * 1024 : PIPE_BUF;
}

}  // namespace

Output::Output(int out_fd, int err_fd)
    : sinks_{Sink{.fd = out_fd, .chunk = chunk_of(out_fd), .queue = {}},
             Sink{.fd = err_fd, .chunk = chunk_of(err_fd), .queue = {}}} {}

void Output::write_line(Stream stream, std::string_view line) {
  Sink& to = sinks_[static_cast<std::size_t>(stream)];
  if (to.error != 0) return;
  to.queue.append(line);
  to.queue.push_back('\n');
}

bool Output::is_full(Stream stream) const { return sink(stream).queue.size() - sink(stream).written > kFull; }

int Output::error(Stream stream) const { return sink(stream).error; }

// Not where the other one is within a line.
bool Output::may_write(std::size_t index) const {
  return !sinks_[index].queue.empty() && !sinks_[1 - index].is_in_line;
}

int Output::fd_to_poll(Stream stream) const {
  return may_write(static_cast<std::size_t>(stream)) ? sink(stream).fd : -1;
}

// Whole lines as far as they fit. Returns whether something was written.
bool Output::write_chunk(Sink& sink) {
  const std::size_t left = sink.queue.size() - sink.written;
  std::size_t size = std::min(left, sink.chunk);
  const std::size_t line_end = sink.queue.rfind('\n', sink.written + size - 1);
  if (line_end != std::string::npos && line_end >= sink.written) size = line_end + 1 - sink.written;
  const ssize_t count = write(sink.fd, sink.queue.data() + sink.written, size);
  if (count < 0) {
    if (errno == EAGAIN || errno == EINTR) return false;
    sink.error = errno;
    sink.queue.clear();
    sink.written = 0;
    sink.is_in_line = false;
    return false;
  }
  sink.written += static_cast<std::size_t>(count);
  if (count > 0) sink.is_in_line = sink.queue[sink.written - 1] != '\n';
  if (sink.written == sink.queue.size() || sink.written > kFull) {
    sink.queue.erase(0, sink.written);
    sink.written = 0;
  }
  return count > 0;
}

void Output::write_some() {
  for (bool has_written = true; has_written;) {
    has_written = false;
    for (std::size_t i = 0; i < sinks_.size(); ++i) {
      pollfd writable{.fd = may_write(i) ? sinks_[i].fd : -1, .events = POLLOUT, .revents = 0};
      if (writable.fd >= 0 && poll(&writable, 1, 0) > 0) has_written |= write_chunk(sinks_[i]);
    }
  }
}

void Output::flush(Signals& signals, std::optional<std::chrono::milliseconds> patience) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + patience.value_or(std::chrono::hours(24 * 365));
  for (;;) {
    write_some();
    std::array<pollfd, 3> fds{pollfd{.fd = fd_to_poll(Stream::out), .events = POLLOUT, .revents = 0},
                              pollfd{.fd = fd_to_poll(Stream::err), .events = POLLOUT, .revents = 0},
                              pollfd{.fd = signals.fd(), .events = POLLIN, .revents = 0}};
    if ((fds[0].fd < 0 && fds[1].fd < 0) || Clock::now() >= end) return;
    constexpr int kLookMs = 100;
    if (poll(fds.data(), fds.size(), kLookMs) < 0 && errno != EINTR) return;
    if (!signals.read().wishes_to_end.empty()) return;
  }
}

}  // namespace tandem::launch
