#include "tandem/distributed/unused_parameters.h"

#include <algorithm>

namespace tandem::distributed {

UnusedParameters::UnusedParameters(const std::vector<ReducedParameter>& parameters, UnusedMode mode)
    : parameters_(parameters), mode_(mode), used_(parameters.size(), false), used_anywhere_(parameters.size(), true) {}

void UnusedParameters::note_reached(std::span<const std::size_t> reached) {
  for (const std::size_t parameter : reached) used_[parameter] = true;
}

void UnusedParameters::begin(std::span<const std::size_t> reached, std::int64_t iteration, ProcessGroup& group) {
  if (mode_ == UnusedMode::forbidden) {
    check_all_reached(reached, iteration);
  } else {
    find(iteration, group);
  }
}

void UnusedParameters::begin_without_loss(std::int64_t iteration, ProcessGroup& group) {
  if (mode_ != UnusedMode::forbidden) find(iteration, group);
}

void UnusedParameters::check_all_reached(std::span<const std::size_t> reached, std::int64_t iteration) const {
  if (reached.size() == parameters_.size()) return;
  std::vector<bool> is_reached(parameters_.size(), false);
  for (const std::size_t parameter : reached) is_reached[parameter] = true;
  std::vector<std::string> missing;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (!is_reached[i]) missing.push_back(parameters_[i].name);
  core::fail(
      "synced backward {}: the loss does not depend on {}: let it, give find_unused_parameters, or set requires_grad "
      "to false before DistributedDataParallel is made",
      iteration, list_names(missing));
}

void UnusedParameters::check_as_at_first(std::int64_t iteration) const {
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (used_[i] != first_used_[i])
      core::fail(
          "synced backward {}: static_graph, but {} is {}used, and was {}used in the first iteration: leave "
          "static_graph "
          "out, give find_unused_parameters",
          iteration, parameters_[i].name, used_[i] ? "" : "not ", first_used_[i] ? "" : "not ");
}

void UnusedParameters::find(std::int64_t iteration, ProcessGroup& group) {
  const bool is_known = !first_used_.empty();
  if (is_known) check_as_at_first(iteration);
  set_aside_.clear();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (used_[i] || (is_known && used_anywhere_[i])) continue;
    const Tensor& gradient = parameters_[i].variable.grad();
    set_aside_.push_back({i, gradient.defined() ? gradient.clone() : Tensor()});
  }
  if (is_known) return;
  const std::vector<std::uint8_t> bits(used_.begin(), used_.end());
  bitmap_ = Tensor::from(bits, core::kCpu);
  bitmap_work_ = group.all_reduce(
      bitmap_, {.op = ReduceOp::max, .label = fmt::format("used parameters of synced backward {}", iteration)});
}

void UnusedParameters::forget() {
  bitmap_work_ = nullptr;
  set_aside_.clear();
  std::fill(used_.begin(), used_.end(), false);
}

std::vector<std::string> UnusedParameters::finish() {
  if (bitmap_work_) {
    bitmap_work_->wait();
    bitmap_work_ = nullptr;
    const auto bits = bitmap_.to_vector<std::uint8_t>();
    for (std::size_t i = 0; i < bits.size(); ++i) used_anywhere_[i] = bits[i] != 0;
    if (mode_ == UnusedMode::as_at_first) first_used_ = used_;
  }
  std::vector<std::string> unused;
  for (const SetAside& kept : set_aside_) {
    if (used_anywhere_[kept.parameter]) continue;
    autograd::Variable variable = parameters_[kept.parameter].variable;
    unused.push_back(parameters_[kept.parameter].name);
    if (kept.gradient.defined()) {
      Tensor slot = variable.grad();
      slot.copy_from(kept.gradient);
    } else {
      variable.set_grad({});
    }
  }
  forget();
  return unused;
}

}  // namespace tandem::distributed
