#include "tools/train/interruption.h"

#include <cerrno>
#include <csignal>
#include <cstring>

#include "tandem/train/checkpoint_folder.h"

namespace tandem::train {
namespace {

std::string describe(const LostOutput& lost_output) {
  return fmt::format("{} cannot be written any more ({})", lost_output.what, std::strerror(lost_output.error));
}

// A process whose reader has gone ends as if SIGPIPE had ended it.
int exit_code(const LostOutput& lost_output) { return lost_output.error == EPIPE ? kSignal + SIGPIPE : kFailed; }

std::string checkpoint_advice(const Settings& given, bool is_first_rank) {
  const auto folder = checkpoint_folder(given);
  if (!folder) return "no checkpoint: the run keeps none without --out or --checkpoint-dir";
  if (!is_first_rank) return "rank 0 has saved a checkpoint; continue with --resume";
  const auto checkpoint = newest_checkpoint(*folder);
  if (!checkpoint) return fmt::format("no checkpoint in {}", *folder);
  return fmt::format("checkpoint saved: {}; continue with --resume", checkpoint->string());
}

}  // namespace

RunEnd interruption(const Settings& given, bool is_first_rank, int signal, std::int64_t step,
                    const std::optional<LostOutput>& lost_output) {
  std::string cause = "interrupted";
  if (lost_output) {
    cause = describe(*lost_output) + ": stopped";
  } else if (signal == SIGPIPE) {
    cause = "the output of another rank cannot be written any more: stopped";
  }
  cause += given.eval_only ? " during the evaluation"
           : step == 0     ? " before step 1"
                           : fmt::format(" after step {}", step);
  if (!given.eval_only) cause += "; " + checkpoint_advice(given, is_first_rank);
  return {.code = lost_output && signal == SIGPIPE ? exit_code(*lost_output) : kSignal + signal, .cause = cause};
}

RunEnd done_without_output(const LostOutput& lost_output) {
  return {.code = exit_code(lost_output), .cause = describe(lost_output) + "; the run itself is done"};
}

}  // namespace tandem::train
