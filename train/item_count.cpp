#include "tandem/train/item_count.h"

#include <algorithm>

namespace tandem::train {

std::function<std::vector<double>(const data::Batch&)> item_counter(const Task& task) {
  if (task.items_are_rows()) return {};
  return [&task](const data::Batch& batch) { return task.items(batch); };
}

ItemCount::ItemCount(const Task& task, const data::Window& window, distributed::ProcessGroup& group) {
  if (task.items_are_rows()) {
    total_ = core::Tensor::from(std::vector{static_cast<double>(window.rows)}, core::kCpu);
    return;
  }
  total_ = core::Tensor::from(window.items, core::kCpu);
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
