#include "tools/train/restart.h"

#include <cstdlib>

#include "tandem/core/files/file.h"

namespace tandem::train {
namespace {

// Of the launch, in the checkpoint folder and in the environment: the same for all attempts, empty if there is one
// only.
constexpr const char* kFile = "launch-id";

std::string own_id() {
  const char* const id = std::getenv("TANDEM_LAUNCH_ID");
  return id ? id : "";
}

}  // namespace

void resume_if_restarted(Settings& settings) {
  const std::string id = own_id();
  const auto folder = checkpoint_folder(settings);
  if (id.empty() || !folder || settings.eval_only) return;
  const std::filesystem::path file = std::filesystem::path(*folder) / kFile;
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error) || core::read_file(file) != id) return;
  settings.resume = true;
  settings.overwrite = false;
}

void note_beginning(const std::filesystem::path& checkpoint_folder) {
  if (const std::string id = own_id(); !id.empty()) core::write_file_atomically(checkpoint_folder / kFile, id);
}

}  // namespace tandem::train
