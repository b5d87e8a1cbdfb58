// How many items a window's loss is a mean over: of all ranks and micro-steps together (tasks/task.h).
#pragma once

#include <functional>
#include <vector>

#include "tandem/data/loader.h"
#include "tandem/distributed/process_group.h"
#include "tandem/train/task.h"

namespace tandem::train {

/// For LoaderOptions::items: none if the task's items are rows, whose number is known without reading any. `task` must
/// outlive it.
std::function<std::vector<double>(const data::Batch&)> item_counter(const Task& task);

class ItemCount {
 public:
  /// Collective, unless the task's items are rows: the ranks' numbers, which the loader counted with item_counter(),
  /// are added up while the first forward computes.
  ItemCount(const Task& task, const data::Window& window, distributed::ProcessGroup& group);

  /// 1 / the items of `term`; 0 where there are none. Waits for the other ranks, as has_any() does.
  double share(std::size_t term);
  /// False where there are no items of any term.
  bool has_any();

 private:
  const double* total();

  core::Tensor total_;  // float64 [terms]
  distributed::WorkPtr work_;
};

}  // namespace tandem::train
