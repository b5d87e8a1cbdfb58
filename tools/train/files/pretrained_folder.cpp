#include "tools/train/files/pretrained_folder.h"

#include <filesystem>

namespace tandem::train {

std::optional<std::string> file_in_folder(const std::optional<std::string>& path, const char* name) {
  std::error_code error;
  if (!path || !std::filesystem::is_directory(*path, error)) return std::nullopt;
  const std::filesystem::path file = std::filesystem::path(*path) / name;
  if (!std::filesystem::exists(file, error)) return std::nullopt;
  return file.string();
}

}  // namespace tandem::train
