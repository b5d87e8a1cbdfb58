// The folder where a run keeps its newest checkpoints: files step-0000000100.safetensors and so on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tandem/train/checkpoint.h"
#include "tandem/train/created_folder.h"
#include "tandem/train/listener.h"

namespace tandem::train {

class CheckpointFolder {
 public:
  /// Makes the folder if it is missing. Throws Error if that cannot be, or, unless `may_hold_some`, it holds
  /// checkpoints.
  CheckpointFolder(const std::filesystem::path& folder, bool may_hold_some);

  /// Keeps this checkpoint and the two before it. Does nothing if the folder has one of this step that it wrote.
  void save(const TrainingState& state, const RunIdentity& run);
  void remove_all() const;
  /// From now on the folder stays; before, it goes with this object if it was made by it. The run begins after update
  /// `step`: later checkpoints are damaged, else it would go on from them, and get names that end in .damaged, so that
  /// they are not taken for this run's newest. Unfinished files of a run that was killed are removed: they pile up.
  void keep(std::int64_t step);
  const std::filesystem::path& path() const { return folder_.path(); }

 private:
  CreatedFolder folder_;
  std::int64_t saved_step_ = -1;
};

/// Saves a checkpoint in a folder whenever the state is to be kept.
class CheckpointKeeper final : public Listener {
 public:
  /// `folder` must outlive it.
  CheckpointKeeper(CheckpointFolder& folder, RunIdentity run) : folder_(folder), run_(std::move(run)) {}
  void checkpoint(const TrainingState& state) override { folder_.save(state, run_); }

 private:
  CheckpointFolder& folder_;
  RunIdentity run_;
};

/// The file of the newest checkpoint, unread. None if the folder has none, or is missing.
std::optional<std::filesystem::path> newest_checkpoint(const std::filesystem::path& folder);

/// What a run goes on from.
struct NewestCheckpoint {
  std::filesystem::path path;
  Checkpoint contents;
  std::vector<std::string> damaged;  ///< what is wrong with newer ones, which were passed over: a line for each
};

/// The newest checkpoint of the folder that is whole. None if it has none, or is missing. Throws Error if all are
/// damaged.
std::optional<NewestCheckpoint> read_newest_checkpoint(const std::filesystem::path& folder);

}  // namespace tandem::train
