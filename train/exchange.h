// What ranks tell each other in each update: the loss, and whether one of them was asked to stop.
#pragma once

#include <span>

#include "tandem/core/tensor.h"
#include "tandem/distributed/process_group.h"
#include "tandem/train/stop_signal.h"
#include "tandem/train/update_report.h"

namespace tandem::train {

class Exchange {
 public:
  Exchange(distributed::ProcessGroup& group, const StopSignal& stop) : group_(group), stop_(stop) {}

  /// Collective: this rank's share of each of the loss's terms, scalars on the device that computed them. They are read
  /// here, and on their way while backward computes.
  void begin(std::span<const core::Tensor> terms);
  /// Sets the report's terms to those of all ranks, added up in the same order on all of them, and `loss` to their sum.
  void end(UpdateReport& report);
  /// The signal that some rank got, else 0. After end().
  int stopped_by() const;

 private:
  double at(int rank, std::size_t column) const {
    return values_.data<double>()[static_cast<std::size_t>(rank) * width_ + column];
  }

  distributed::ProcessGroup& group_;
  const StopSignal& stop_;
  std::size_t width_ = 0;
  core::Tensor values_;  // [W, terms + 1]: the terms, the signal
  distributed::WorkPtr work_;
};

}  // namespace tandem::train
