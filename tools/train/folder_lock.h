// A folder in which one run at a time writes: two in one would replace each other's metrics and checkpoints.
#pragma once

#include <filesystem>

namespace tandem::train {

class FolderLock {
 public:
  /// Holds the folder until destroyed, or the process ends, however it ends; leaves no file. Throws Error where another
  /// run holds it. Where the file system knows no locks, nothing is held.
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&&) = delete;

 private:
  int descriptor_;
};

}  // namespace tandem::train
