#include "tandem/distributed/launch_rule.h"

#include <utility>

#include "tandem/core/error.h"

namespace tandem::distributed {

LaunchRule::LaunchRule(const BucketPlan& plan, bool overlap) : members_(plan.members()), overlap_(overlap) {
  for (std::size_t i = 0; i < plan.item_count(); ++i) bucket_of_.push_back(plan.slot_of(i).bucket);
  begin();
}

void LaunchRule::begin() {
  is_complete_.assign(bucket_of_.size(), false);
  pending_.clear();
  for (const auto& items : members_) pending_.push_back(items.size());
  launched_ = 0;
}

LaunchRule::Buckets LaunchRule::complete(std::size_t item) {
  if (is_complete_[item]) core::fail("launch rule: item {} was complete already", item);
  is_complete_[item] = true;
  --pending_[bucket_of_[item]];
  return overlap_ ? launch_complete() : Buckets(launched_, launched_);
}

LaunchRule::Buckets LaunchRule::end() { return launch_complete(); }

LaunchRule::Buckets LaunchRule::launch_complete() {
  const std::size_t first = launched_;
  while (launched_ < pending_.size() && is_complete(launched_)) ++launched_;
  return {first, launched_};
}

std::vector<std::size_t> LaunchRule::missing() const {
  std::vector<std::size_t> items;
  if (launched_ == members_.size()) return items;
  for (const std::size_t item : members_[launched_])
    if (!is_complete_[item]) items.push_back(item);
  return items;
}

}  // namespace tandem::distributed
