#include "tandem/models/adapted_weights.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

namespace tandem::models {
namespace {

using core::StateDict;
using core::Tensor;

constexpr std::string_view kParallelPrefix = "module.";
constexpr std::string_view kBatchCount = ".num_batches_tracked";

void remove_parallel_prefix(StateDict& state) {
  for (const auto& [name, tensor] : state)
    if (!name.starts_with(kParallelPrefix)) return;
  for (auto& [name, tensor] : state) name.erase(0, kParallelPrefix.size());
}

void add_batch_counts(const StateDict& own, StateDict& state) {
  std::set<std::string_view> present;
  for (const auto& [name, tensor] : state) present.insert(name);
  StateDict missing;
  for (const auto& [name, tensor] : own)
    if (name.ends_with(kBatchCount) && !present.count(name)) missing.emplace_back(name, Tensor::zeros_like(tensor));
  state.insert(state.end(), missing.begin(), missing.end());
}

// Both have as many features, but another number of classes, the first dimension; a bias has that alone.
bool differs_in_classes(const core::Shape& own, const core::Shape& other) {
  if (own.rank() != other.rank() || own.rank() == 0 || own[0] == other[0]) return false;
  for (int d = 1; d < own.rank(); ++d)
    if (own[d] != other[d]) return false;
  return true;
}

/// Whether a head must begin anew, and why. `head` is empty for models without one: they take all weights or none.
std::string describe_new_head(const StateDict& own, const StateDict& state, const std::string& head) {
  if (head.empty()) return "";
  std::map<std::string_view, const Tensor*> given;
  for (const auto& [name, tensor] : state)
    if (name.starts_with(head)) given[name] = &tensor;
  for (const auto& [name, tensor] : own) {
    if (!name.starts_with(head)) continue;
    const std::string what = fmt::format("{} is new, for {} classes", head.substr(0, head.size() - 1), tensor.size(0));
    if (given.empty()) return what + "; the file has none";
    const auto found = given.find(name);
    if (found != given.end() && differs_in_classes(tensor.shape(), found->second->shape()))
      return what + fmt::format("; the file's is for {}", found->second->size(0));
  }
  return "";
}

}  // namespace

AdaptedWeights adapt_weights(nn::Module& model, StateDict file, const std::string& head) {
  const StateDict own = model.state_dict();
  AdaptedWeights adapted{.state = std::move(file)};
  remove_parallel_prefix(adapted.state);
  add_batch_counts(own, adapted.state);
  adapted.new_head = describe_new_head(own, adapted.state, head);
  if (adapted.new_head.empty()) return adapted;
  const auto is_of_head = [&](const auto& entry) { return entry.first.starts_with(head); };
  std::erase_if(adapted.state, is_of_head);
  for (const auto& entry : own)
    if (is_of_head(entry)) adapted.state.emplace_back(entry.first, entry.second.clone());
  return adapted;
}

}  // namespace tandem::models
