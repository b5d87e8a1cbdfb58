// A folder that a run needs: there afterwards, but not if the run fails to start.
#pragma once

#include <filesystem>
#include <vector>

namespace tandem::train {

class CreatedFolder {
 public:
  /// Makes the folder, with those above it, where it is missing, and tries to write in it. Throws Error where that
  /// fails.
  explicit CreatedFolder(const std::filesystem::path& path);
  /// Removes the folders that it made and that are empty, unless keep() was called.
  ~CreatedFolder();
  CreatedFolder(const CreatedFolder&) = delete;
  CreatedFolder& operator=(const CreatedFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void keep() { made_.clear(); }

 private:
  void remove() noexcept;

  std::filesystem::path path_;
  std::vector<std::filesystem::path> made_;  // the topmost first
};

}  // namespace tandem::train
