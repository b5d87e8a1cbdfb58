#include "tools/launch/rank_output.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "tandem/core/error.h"

namespace tandem::launch {
namespace {

constexpr std::size_t kAtOnce = 64 * 1024;

}  // namespace

void RankOutput::open_log(const std::string& path, bool append) {
  log_.open(path, append ? std::ios::binary | std::ios::app : std::ios::binary | std::ios::trunc);
  if (!log_) core::fail("{}: cannot be written: {}", path, std::strerror(errno));
  log_path_ = path;
}

RankOutput::Read RankOutput::read_from(int fd, Stream stream) {
  std::array<char, kAtOnce> bytes;
  const ssize_t count = read(fd, bytes.data(), bytes.size());
  if (count < 0) return errno == EAGAIN || errno == EINTR ? Read::nothing : Read::ended;
  if (count == 0) return Read::ended;
  LineSplitter& splitter = stream == Stream::out ? out_ : err_;
  splitter.feed({bytes.data(), static_cast<std::size_t>(count)},
                [&](std::string_view line) { write_line(stream, line); });
  log_.flush();
  return Read::some;
}

void RankOutput::finish() {
  out_.finish([&](std::string_view line) { write_line(Stream::out, line); });
  err_.finish([&](std::string_view line) { write_line(Stream::err, line); });
  log_.flush();
}

void RankOutput::write_line(Stream stream, std::string_view line) {
  output_.write_line(stream, prefix_ + std::string(line));
  if (stream == Stream::err && !line.empty()) last_error_ = is_error_line(line) ? std::string(line) : "";
  if (!log_.is_open()) return;
  log_ << line << '\n';
  if (log_) return;
  output_.write_line(Stream::err,
                     fmt::format("launch: {}: cannot be written any more: {}", log_path_, std::strerror(errno)));
  log_.close();
}

std::string rank_prefix(int rank, int world_size) {
  return fmt::format("[{:>{}}] ", rank, std::to_string(world_size - 1).size());
}

bool is_error_line(std::string_view line) {
  const std::size_t end = line.find(": error: ");
  return end != std::string_view::npos && end > 0 &&
         line.substr(0, end).find_first_of(" :\t") == std::string_view::npos;
}

}  // namespace tandem::launch
