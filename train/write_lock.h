// A folder or a file to which one run at a time writes: two would replace each other's metrics and checkpoints.
#pragma once

#include <filesystem>

namespace tandem::train {

class WriteLock {
 public:
  /// Holds the folder or file until destroyed, or the process ends, however it ends; leaves no file. Throws Error where
  /// another run holds it. Where the file system knows no locks, and of pipes and terminals, nothing is held.
  explicit WriteLock(const std::filesystem::path& path);
  ~WriteLock();
  WriteLock(WriteLock&& other) noexcept;
  WriteLock& operator=(WriteLock&&) = delete;

 private:
  int descriptor_;
};

}  // namespace tandem::train
