// Checkpoints: a training state in a file, and the folder where a run keeps its newest ones.
//
// A file is safetensors: "model.<name>", "optimizer.<entry>", "schedule.step", "sampler.epoch", "sampler.micro_step";
// its metadata tells what the run was (RunIdentity). It is written whole or not at all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "tools/train/created_folder.h"
#include "tools/train/training_state.h"

namespace tandem::train {

/// What must be the same for a run to be continued: the data's order, the random numbers, and what the tensors mean, by
/// flag or by what it is called.
using RunIdentity = std::map<std::string, std::string>;
RunIdentity run_identity(const Settings& settings, int ranks, const DataSource& data);

void save_checkpoint(const std::filesystem::path& path, const TrainingState& state, const RunIdentity& run);
/// Throws Error where the file is damaged, or `run` is not the one it came from: what differs, with both values.
void load_checkpoint(const std::filesystem::path& path, TrainingState& state, const RunIdentity& run);

/// None where the folder has none, or is missing.
std::optional<std::filesystem::path> newest_checkpoint(const std::filesystem::path& folder);

/// Files step-0000000100.safetensors and so on.
class CheckpointFolder {
 public:
  /// Makes the folder where it is missing. Throws Error where that cannot be, or, unless `may_hold_some`, it holds
  /// checkpoints.
  CheckpointFolder(const std::filesystem::path& folder, bool may_hold_some);

  /// Keeps this checkpoint and the two before it. Does nothing where the folder has one of this step that it wrote.
  void save(const TrainingState& state, const RunIdentity& run);
  void remove_all() const;
  /// From now on the folder stays; before, it goes with this object if it was made by it. Unfinished files of a run
  /// that was killed are removed, so that they do not pile up.
  void keep();
  const std::filesystem::path& path() const { return folder_.path(); }

 private:
  CreatedFolder folder_;
  std::int64_t saved_step_ = -1;
};

}  // namespace tandem::train
