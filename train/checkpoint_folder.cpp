#include "tandem/train/checkpoint_folder.h"

#include <algorithm>
#include <string_view>

namespace tandem::train {
namespace {

constexpr std::size_t kKept = 3;
constexpr std::string_view kPrefix = "step-", kSuffix = ".safetensors";

// step-0000000100.safetensors, and nothing that somebody else put there under a similar name.
bool is_checkpoint(std::string_view name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return false;
  name.remove_prefix(kPrefix.size());
  name.remove_suffix(kSuffix.size());
  return name.size() == 10 && name.find_first_not_of("0123456789") == name.npos;
}

std::string file_name(std::int64_t step) { return fmt::format("{}{:010}{}", kPrefix, step, kSuffix); }

// What a run that was killed while it wrote a checkpoint left (core::AtomicFile).
bool is_leftover(std::string_view name) {
  const std::size_t end = name.find(".safetensors.");
  return end != name.npos && is_checkpoint(name.substr(0, end + kSuffix.size())) && name.ends_with(".tmp");
}

/// Oldest first.
std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) return files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (is_checkpoint(entry.path().filename().string())) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

CheckpointFolder::CheckpointFolder(const std::filesystem::path& folder, bool may_hold_some) : folder_(folder) {
  if (!may_hold_some && !list_checkpoints(folder_.path()).empty())
    core::fail("{}: holds the checkpoints of a run: give --resume to continue it, --overwrite to replace it",
               folder.string());
}

void CheckpointFolder::save(const TrainingState& state, const RunIdentity& run) {
  if (state.step() == saved_step_) return;
  save_checkpoint(folder_.path() / file_name(state.step()), state, run);
  saved_step_ = state.step();
  const auto files = list_checkpoints(folder_.path());
  for (std::size_t i = 0; i + kKept < files.size(); ++i) std::filesystem::remove(files[i]);
}

void CheckpointFolder::keep(std::int64_t step) {
  folder_.keep();
  for (const auto& file : list_checkpoints(folder_.path()))
    if (file.filename() > file_name(step)) std::filesystem::rename(file, file.string() + ".damaged");
  std::vector<std::filesystem::path> leftovers;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
    if (is_leftover(entry.path().filename().string())) leftovers.push_back(entry.path());
  for (const auto& file : leftovers) std::filesystem::remove(file);
}

void CheckpointFolder::remove_all() const {
  for (const auto& file : list_checkpoints(folder_.path())) std::filesystem::remove(file);
}

std::optional<std::filesystem::path> newest_checkpoint(const std::filesystem::path& folder) {
  const auto files = list_checkpoints(folder);
  if (files.empty()) return std::nullopt;
  return files.back();
}

std::optional<NewestCheckpoint> read_newest_checkpoint(const std::filesystem::path& folder) {
  const auto files = list_checkpoints(folder);
  NewestCheckpoint newest;
  for (auto file = files.rbegin(); file != files.rend(); ++file) {
    try {
      newest.contents = read_checkpoint(*file);
      newest.path = *file;
      return newest;
    } catch (const core::Error& error) {
      newest.damaged.emplace_back(error.what());
    }
  }
  if (newest.damaged.empty()) return std::nullopt;
  core::fail("{}: no checkpoint can be read; the newest: {}", folder.string(), newest.damaged.front());
}

}  // namespace tandem::train
