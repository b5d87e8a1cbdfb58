#include "tandem/core/files/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

namespace tandem::core {
namespace {

// One call to the system moves less than 2 GiB.
constexpr std::size_t kPiece = std::size_t{1} << 30;

// Makes a new file beside `path`, with the permissions that an ordinary new file would have.
int create_beside(const std::filesystem::path& path, std::filesystem::path* temporary) {
  static std::atomic<unsigned> count{0};
  int descriptor = -1;
  do {
    *temporary = path;
    *temporary += fmt::format(".{}-{}.tmp", ::getpid(), count.fetch_add(1));
    descriptor = ::open(temporary->c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (descriptor < 0 && errno == EEXIST);
  return descriptor;
}

// Makes the rename itself survive a crash. Some file systems cannot sync a folder; the contents are safe all the same.
void sync_folder(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

}  // namespace

InputFile::InputFile(std::filesystem::path path) : path_(std::move(path)) {
  // Not blocking: to open a pipe would wait for its writer.
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) fail("{}: cannot be opened: {}", path_.string(), std::strerror(errno));
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor_);
    fail("{}: is not a regular file", path_.string());
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
}

InputFile::~InputFile() { ::close(descriptor_); }

void InputFile::read(std::uint64_t offset, void* to, std::size_t bytes) const {
  auto* next = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = ::pread(descriptor_, next, std::min(bytes, kPiece), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_at(path_, offset, "cannot be read: {}", std::strerror(errno));
    if (got == 0) fail_at(path_, offset, "the file ends here, {} more bytes were expected", bytes);
    next += got;
    offset += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::size_t>(got);
  }
}

AtomicFile::AtomicFile(const std::filesystem::path& path) : path_(path) {
  std::error_code ignored;
  if (std::filesystem::is_symlink(path_, ignored)) path_ = std::filesystem::weakly_canonical(path_, ignored);
  if (path_.empty()) path_ = path;  // a link that cannot be followed
  if (std::filesystem::exists(path_, ignored) && !std::filesystem::is_regular_file(path_, ignored))
    fail("{}: is not a regular file, so it cannot be replaced by one", path_.string());
  descriptor_ = create_beside(path_, &temporary_);
  if (descriptor_ < 0) throw_error("created");
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::write(const void* from, std::size_t bytes) {
  const auto* next = static_cast<const char*>(from);
  while (bytes > 0) {
    const ssize_t put = ::write(descriptor_, next, std::min(bytes, kPiece));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) throw_error("written");
    next += put;
    bytes -= static_cast<std::size_t>(put);
  }
}

void AtomicFile::commit() {
  if (::fsync(descriptor_) != 0) throw_error("written");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) throw_error("renamed into place");
  ::close(descriptor_);
  descriptor_ = -1;
  sync_folder(path_.parent_path());
}

void AtomicFile::throw_error(const char* action) const {
  fail("{}: cannot be {}: {}", path_.string(), action, std::strerror(errno));
}

std::string read_file(const std::filesystem::path& path) {
  const InputFile file(path);
  std::string contents;
  try {
    contents.resize(file.size());
  } catch (const std::exception&) {  // bad_alloc, length_error
    fail("{}: {} bytes do not fit into memory", path.string(), file.size());
  }
  file.read(0, contents.data(), contents.size());
  return contents;
}

std::string without_byte_order_mark(std::string text) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  if (text.starts_with(kMark)) text.erase(0, kMark.size());
  return text;
}

std::string read_text_file(const std::filesystem::path& path, const char* what, std::uint64_t most) {
  if (const std::uint64_t size = InputFile(path).size(); size > most)
    fail("{}: {} bytes are too many for {}, at most {} are read", path.string(), size, what, most);
  return without_byte_order_mark(read_file(path));
}

void write_file_atomically(const std::filesystem::path& path, std::string_view contents) {
  AtomicFile file(path);
  file.write(contents.data(), contents.size());
  file.commit();
}

}  // namespace tandem::core
