#include "tandem/train/output_lines.h"

#include <fcntl.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "tandem/core/error.h"

namespace tandem::train {
namespace {

constexpr std::chrono::milliseconds kLook{50};

std::FILE* open_to_write(const std::filesystem::path& path, OutputLines::Begin begin, const StopSignal& stop) {
  const bool is_emptied = begin == OutputLines::Begin::empty;
  const int flags = O_WRONLY | O_CREAT | O_CLOEXEC | (is_emptied ? O_TRUNC : O_APPEND);
  int descriptor = open(path.c_str(), flags | O_NONBLOCK, 0666);
  for (; descriptor < 0 && errno == ENXIO; descriptor = open(path.c_str(), flags | O_NONBLOCK, 0666)) {
    if (stop.received()) core::fail("{}: nobody reads this pipe", path.string());
    std::this_thread::sleep_for(kLook);
  }
  std::FILE* const file = descriptor < 0 ? nullptr : fdopen(descriptor, is_emptied ? "w" : "a");
  if (!file) core::fail("{}: cannot be opened for writing: {}", path.string(), std::strerror(errno));
  fcntl(descriptor, F_SETFL, flags);  // writes wait for the reader
  return file;
}

}  // namespace

OutputLines::OutputLines(std::filesystem::path path, Begin begin, StopSignal& stop)
    : path_(std::move(path)), stop_(&stop), file_(open_to_write(path_, begin, stop)) {}

void OutputLines::add(const std::string& line) {
  if (!file_) return;
  const std::string text = line + '\n';
  if (std::fwrite(text.data(), 1, text.size(), file_.get()) == text.size() && std::fflush(file_.get()) == 0) return;
  stop_->lose_output(path_.string(), errno);
  file_.reset();
}

}  // namespace tandem::train
