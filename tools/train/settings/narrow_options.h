// From the settings of the program to the options of its parts, which know no flags.
#pragma once

#include "tandem/train/ranks.h"
#include "tandem/train/trainer.h"
#include "tools/train/settings/settings.h"
#include "tools/train/tasks/initial_state.h"

namespace tandem::train {

/// Throws UsageError if flags and environment do not say who this rank is.
RanksOptions ranks_options(const Settings& settings);

TrainerOptions trainer_options(const Settings& settings, const DataSource& data, const Length& length);

/// The same settings, made those of `rank`, one of `local_size` on this machine: its threads (core/thread_count.h), and
/// files that do not collide with others'. Ranks other than the first write nothing but --metrics and --profile-out, to
/// F.rankN; what all do together, such as --checkpoint-every's gathering of buffers, stays.
Settings settings_of_rank(const Settings& settings, int rank, int local_size);

}  // namespace tandem::train
