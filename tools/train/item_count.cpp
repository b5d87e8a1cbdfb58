#include "tools/train/item_count.h"

#include <algorithm>

namespace tandem::train {

ItemCount::ItemCount(const Task& task, const data::Window& window, distributed::ProcessGroup& group) {
  if (task.items_are_rows()) {
    total_ = core::Tensor::from(std::vector{static_cast<double>(window.rows)});
    return;
  }
  std::vector<double> mine(task.terms().size());
  for (const data::Batch& batch : window.micro_batches) {
    const std::vector<double> items = task.items(batch);
    for (std::size_t term = 0; term < mine.size(); ++term) mine[term] += items[term];
  }
  total_ = core::Tensor::from(mine);
  work_ = group.all_reduce(total_, {.label = "items"});
}

const double* ItemCount::total() {
  if (work_) work_->wait();
  work_ = {};
  return total_.data<double>();
}

double ItemCount::share(std::size_t term) { return total()[term] > 0 ? 1 / total()[term] : 0; }

bool ItemCount::has_any() {
  const double* of_term = total();
  return std::any_of(of_term, of_term + total_.numel(), [](double items) { return items > 0; });
}

}  // namespace tandem::train
