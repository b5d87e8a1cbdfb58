// Metrics: JSON lines, one for each update and evaluation, and a last one.
//
//   {"step":1,"epoch":1,"loss":2.31,"lr":0.02,"samples_per_s":..,"step_ms":..,"data_ms":..,"forward_ms":..,"backward_ms":..,
//    "comm_ms":..,"comm_exposed_ms":..,"optimizer_ms":..,"all_reduces":2[,"grad_norm":..],"time":1764550800.125}
//   {"step":938,"epoch":1,"eval_loss":0.41,"eval_accuracy":0.86,"time":..}
//   {"done":true,"steps":938,"peak_rss_mb":410.2,"weights_hash":"53a9...","time":..}
//
// docs/metrics.md says what each field is.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tandem/train/listener.h"
#include "tandem/train/output_lines.h"
#include "tandem/train/write_lock.h"

namespace tandem::train {

/// FNV-1a, 64 bits, over the bytes of all parameters, each in row-major order whatever its strides, as 16 hexadecimal
/// digits (core/fnv1a.h).
std::string weights_hash(const nn::Module& model);

/// The most memory that this process ever held, in MiB.
double peak_rss_mb();

/// What is left of the metrics `text` when a run is continued after update `step`: the lines up to that update's and
/// the evaluations after it. A line cut short by a crash ends it too.
std::string metrics_until(const std::string& text, std::int64_t step);

/// The update after which the last evaluation of the metrics `text` was made; -1: there is none.
std::int64_t last_evaluation(const std::string& text);

/// Writes the same lines to any number of files. Lines are there as soon as they are written.
class Metrics final : public Listener {
 public:
  /// Begins new files, or, where `step` is above 0, goes on after that update's line. Throws Error where a file cannot
  /// be written, or another run writes to it; one that later takes no more is lost output, because of which `stop` ends
  /// the run.
  Metrics(const std::vector<std::filesystem::path>& files, std::int64_t step, StopSignal& stop);

  /// Of the lines that were there already, the update after which the last evaluation was made; -1: there is none.
  std::int64_t evaluated_step() const { return evaluated_step_; }

  void update(const UpdateReport& report, const distributed::Reducer& reducer) override;
  void evaluation(std::int64_t step, std::int64_t epoch, const Evaluation& result) override;
  void done(bool complete, std::int64_t steps, const nn::Module& model);

 private:
  std::int64_t evaluated_step_ = -1;
  std::vector<WriteLock> locks_;
  std::vector<OutputLines> files_;
};

}  // namespace tandem::train
