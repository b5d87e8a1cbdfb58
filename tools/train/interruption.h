// What a run says that was asked to stop: where it stands, and how it goes on.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "tools/train/settings/settings.h"
#include "tandem/train/stop_signal.h"

namespace tandem::train {

/// How a run ended.
struct RunEnd {
  int code = 0;       ///< the process's exit code
  std::string cause;  ///< empty if all was done
};

/// Of a run with settings `given` that stopped after update `step` because of `signal`; `step` is 0 if it made none.
/// "interrupted after step 201; checkpoint saved: PATH; continue with --resume".
RunEnd interruption(const Settings& given, bool is_first_rank, int signal, std::int64_t step,
                    const std::optional<LostOutput>& lost_output);

/// Of a run that is done, but whose output was not taken to the end.
RunEnd done_without_output(const LostOutput& lost_output);

}  // namespace tandem::train
