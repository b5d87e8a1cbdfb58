// LaunchRule: which buckets may be sent now. They go in order of their index, the same on every rank, whatever order
// gradients come in; each as soon as it and all before it are complete (Li et al. 2020, section 3.2.3, figure 3a).
//
//   rule.begin();
//   for (b : rule.complete(item)) launch(b);     each time that a gradient is complete
//   for (b : rule.end()) launch(b);              when backward has ended: what it left
//   rule.missing()                               empty, unless a gradient did not come
//
// It knows neither tensors nor clocks: the reducer asks it, and so may a simulator.
#pragma once

#include <cstddef>
#include <ranges>
#include <vector>

#include "tandem/distributed/bucket_plan.h"

namespace tandem::distributed {

class LaunchRule {
 public:
  /// Consecutive ones, in the order in which they are to be launched.
  using Buckets = std::ranges::iota_view<std::size_t, std::size_t>;

  LaunchRule() = default;
  /// Without `overlap` nothing may be launched before end().
  explicit LaunchRule(const BucketPlan& plan, bool overlap = true);

  /// From now on all buckets wait for all of their items.
  void begin();
  /// Returns the buckets that may be launched now, often none. Throws Error if the item was complete already.
  Buckets complete(std::size_t item);
  /// No further item will come. Returns the buckets that are complete and were not launched.
  Buckets end();

  bool is_complete(std::size_t bucket) const { return pending_[bucket] == 0; }
  /// The items that the first bucket not launched yet still waits for.
  std::vector<std::size_t> missing() const;

 private:
  Buckets launch_complete();

  std::vector<std::vector<std::size_t>> members_;  // of each bucket
  std::vector<std::size_t> bucket_of_;             // each item
  bool overlap_ = true;

  std::vector<bool> is_complete_;     // each item
  std::vector<std::size_t> pending_;  // of each bucket: items that are not complete
  std::size_t launched_ = 0;          // buckets
};

}  // namespace tandem::distributed
