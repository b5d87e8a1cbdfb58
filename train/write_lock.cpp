#include "tandem/train/write_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "tandem/core/error.h"

namespace tandem::train {
namespace {

int open_to_lock(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::is_other(path, error)) return -1;
  return ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
}

}  // namespace

WriteLock::WriteLock(const std::filesystem::path& path) : descriptor_(open_to_lock(path)) {
  if (descriptor_ < 0 || ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  ::close(descriptor_);
  core::fail("{}: another run is writing there", path.string());
}

WriteLock::~WriteLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

WriteLock::WriteLock(WriteLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

}  // namespace tandem::train
