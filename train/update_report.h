// What is told of one update: to metrics, to progress.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tandem::train {

struct UpdateReport {
  std::int64_t step = 0;   ///< updates made, this one included
  std::int64_t epoch = 0;  ///< counted from 1
  double loss = 0;         ///< the sum of its terms, each a mean over all items of the window, of all ranks
  std::vector<std::pair<std::string, double>> terms = {};
  bool has_items = true;  ///< false: there was nothing to learn from, and no step was made
  bool is_last = false;   ///< of the run, or of what a signal leaves of it
  double lr = 0;
  std::int64_t rows = 0;  ///< of all ranks

  // Wall clock. `step_ms` is from the wait for the window to the end of the optimizer.
  double step_ms = 0;
  double data_ms = 0;  ///< waited for data
  double forward_ms = 0, backward_ms = 0, optimizer_ms = 0;
  double comm_ms = 0;            ///< from the first launch of a gradient all-reduce to the last one's end
  double comm_exposed_ms = 0;    ///< of it, what backward waited for after its last node
  std::int64_t all_reduces = 0;  ///< of gradients

  std::optional<double> grad_norm = std::nullopt;  ///< before clipping, where it was computed

  double samples_per_s() const { return step_ms > 0 ? static_cast<double>(rows) * 1000 / step_ms : 0; }
};

}  // namespace tandem::train
