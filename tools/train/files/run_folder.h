// All that a run leaves on disk, opened before the first update, so that what cannot be written is found then.
//
// The run folder of --out:  config.json  metrics.jsonl  checkpoints/
#pragma once

#include <optional>

#include <vector>

#include "tandem/train/checkpoint_folder.h"
#include "tandem/train/metrics.h"
#include "tandem/train/write_lock.h"
#include "tools/train/settings/settings.h"

namespace tandem::train {

class RunFolder {
 public:
  /// Makes the folders and tries every file that is to be written. Throws Error where one cannot be, or where a run is
  /// there already that the settings say neither to continue nor to replace, or one is writing there now. Until begin()
  /// nothing that was there is changed, and if this object goes before, everything is as it was.
  explicit RunFolder(const Settings& settings);

  /// Null where the run keeps none.
  CheckpointFolder* checkpoints() { return checkpoints_ ? &*checkpoints_ : nullptr; }

  /// The run begins, or goes on, after update `step`: opens the metrics, of which `stop` learns if they cannot be
  /// written any more, and writes config.json, which is `chosen`, the settings without what was found out about this
  /// machine, and as "facts" what the run is beside them.
  Metrics begin(std::int64_t step, const Settings& chosen, const RunFacts& facts, StopSignal& stop);

 private:
  void open_out();
  void open_checkpoints(const std::string& folder);

  const Settings& settings_;
  std::vector<WriteLock> locks_;
  std::optional<CreatedFolder> out_;
  std::optional<CheckpointFolder> checkpoints_;
};

}  // namespace tandem::train
