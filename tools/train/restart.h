// Ranks that `launch --max-restarts` starts again after a failure go on from the newest checkpoint.
#pragma once

#include <filesystem>

#include "tools/train/settings/settings.h"

namespace tandem::train {

/// If an earlier attempt of this launch has written in the checkpoint folder, the settings become those of --resume
/// without --overwrite. What other runs left there changes nothing: attempts that failed before they began to write are
/// repeated as they were.
void resume_if_restarted(Settings& settings);

/// The run begins to write in its checkpoint folder, whose former contents are gone if they were to be replaced.
void note_beginning(const std::filesystem::path& checkpoint_folder);

}  // namespace tandem::train
