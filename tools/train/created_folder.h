// A folder that a run needs: there afterwards, but not if the run fails to start.
#pragma once

#include <filesystem>

namespace tandem::train {

class CreatedFolder {
 public:
  /// Makes the folder, with those above it, where it is missing, and tries to write in it. Throws Error where that
  /// fails.
  explicit CreatedFolder(const std::filesystem::path& path);
  /// Removes what it made, unless keep() was called.
  ~CreatedFolder();
  CreatedFolder(const CreatedFolder&) = delete;
  CreatedFolder& operator=(const CreatedFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void keep() { topmost_.clear(); }

 private:
  void remove() noexcept;

  std::filesystem::path path_;
  std::filesystem::path topmost_;  // of the folders that were made
};

}  // namespace tandem::train
