// A checkpoint: a training state in a file, which is written whole or not at all.
//
// The file is safetensors: "model.<name>", "optimizer.<entry>", "schedule.<entry>", "sampler.epoch",
// "sampler.micro_step"; its metadata tells what the run was (RunIdentity), and holds a checksum over all the rest, so
// that a changed byte is found when it is read. Where a run keeps its newest ones: checkpoint_folder.h.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tandem/core/files/safetensors.h"
#include "tandem/train/training_state.h"

namespace tandem::train {

/// What a run was, by flag or by what it is called.
inline constexpr const char* kUnsetValue = "unset";

struct RunIdentity {
  using Values = std::map<std::string, std::string>;
  /// What must be the same for a run to be continued: the data's order, the random numbers, what the tensors mean.
  Values fixed;
  /// What may be changed when a run is continued, but not without a word: how it learns.
  Values chosen;
};

/// The schedule of the learning rate had another length when the checkpoint was written.
class OtherLength : public core::Error {
 public:
  using Error::Error;
};

struct Checkpoint {
  core::Metadata metadata;
  core::TensorMap tensors;
};

/// "crc32 ..." over names, shapes, dtypes and bytes of the tensors, and the metadata but for the checksum itself.
std::string checksum(const Checkpoint& checkpoint);

void save_checkpoint(const std::filesystem::path& path, const TrainingState& state, const RunIdentity& run);
/// Throws Error if the file is damaged, or no checkpoint.
Checkpoint read_checkpoint(const std::filesystem::path& path);
/// Sets the state. Returns what was chosen otherwise then: "--lr 0.1, now 0.01". Throws Error if `run` is not the one
/// that the checkpoint came from: what differs, with both values; OtherLength if the learning rate would jump, unless
/// `is_new_length_meant`.
std::vector<std::string> restore(const Checkpoint& checkpoint, const RunIdentity& run, bool is_new_length_meant,
                                 TrainingState& state);

}  // namespace tandem::train
