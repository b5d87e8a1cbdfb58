#include "tandem/train/created_folder.h"

#include "tandem/core/files/file.h"

namespace tandem::train {
namespace fs = std::filesystem;

CreatedFolder::CreatedFolder(const fs::path& path) : path_(fs::absolute(path).lexically_normal()) {
  if (!path_.has_filename()) path_ = path_.parent_path();  // "run/"
  std::error_code error;
  try {
    fs::path folder;
    for (const fs::path& part : path_) {
      folder /= part;
      if (fs::create_directory(folder, error)) made_.push_back(folder);
    }
    std::error_code ignored;
    if (!fs::is_directory(path_, ignored))
      core::fail("{}: cannot be made a folder: {}", path.string(), error.message());
    try {
      const core::AtomicFile probe(path_ / "probe");  // leaves no trace
    } catch (const core::Error& failure) {
      core::fail("{}: no file can be made in it: {}", path.string(), failure.what());
    }
  } catch (...) {
    remove();
    throw;
  }
}

CreatedFolder::~CreatedFolder() { remove(); }

// Never what is in them: another run may have begun there meanwhile.
void CreatedFolder::remove() noexcept {
  std::error_code ignored;
  for (auto folder = made_.rbegin(); folder != made_.rend(); ++folder) fs::remove(*folder, ignored);
}

}  // namespace tandem::train
