// Reducer: averages the gradients of a set of parameters over the ranks of a group while backward still computes.
//
// It is Algorithm 1 of Li et al., PyTorch Distributed (VLDB 2020), on the four things that a leaf offers
// (autograd/leaf.h):
//
//   constructor              assigns parameters to buckets; each bucket slot becomes its leaf's gradient destination;
//                            a hook on every leaf
//   backward_begins          each bucket waits for as many gradients as it has parameters
//   gradient_is_ready        the hook: one gradient less to wait for
//   launch_ready_buckets     hands complete buckets to the group, in order of their index on every rank
//   finish                   at the end of backward: waits until all averages are in place
//
// Where no bucket is sent (local_only), gradients accumulate in the same slots. What one iteration did is written down
// in an IterationRecord (statistics.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tandem/autograd/engine.h"
#include "tandem/autograd/leaf.h"
#include "tandem/core/traffic.h"
#include "tandem/distributed/buckets.h"
#include "tandem/distributed/process_group.h"
#include "tandem/distributed/statistics.h"

namespace tandem::distributed {

using autograd::Variable;

struct ReducedParameter {
  std::string name;
  Variable variable;  ///< a leaf that requires a gradient
};

class Reducer final : private autograd::BackwardObserver {
 public:
  /// Throws Error where there are no parameters, or one of them has another owner already.
  Reducer(std::vector<ReducedParameter> parameters, std::shared_ptr<ProcessGroup> group, const BucketLimits& limits);

  /// Whether backwards that begin from now on are this rank's own affair: gradients accumulate, nothing is sent.
  void set_local_only(bool local_only) { local_only_ = local_only; }
  /// For the record of the next synced backward.
  void note_forward(const Interval& forward) { forward_ = forward; }
  /// Synced backwards so far. The same on all ranks.
  std::int64_t iterations() const { return last_.iteration; }
  /// The last synced backward that ended well.
  const IterationRecord& last_iteration() const { return last_; }
  /// What each bucket sends: indices into the parameters, in order of their slots.
  std::span<const std::vector<std::size_t>> assignment() const { return assignment_; }

 private:
  struct Bucket {
    BucketMemory memory;
    std::string label;        // for messages: "bucket 1 (conv2.weight, conv2.bias)"
    std::size_t pending = 0;  // gradients that are not complete yet
    WorkPtr work;             // from its launch until it has been waited for
  };
  /// Where a parameter's gradient lies.
  struct Slot {
    std::size_t bucket = 0, place = 0;
  };

  void backward_begins(autograd::BackwardPass& pass, std::span<const Variable> reached) override;
  void gradient_is_ready(std::size_t parameter);
  void launch_ready_buckets();
  void finish();

  void check_nothing_in_flight() const;
  void check_all_reached(std::span<const Variable> reached) const;
  void settle(std::size_t parameter);
  void launch(std::size_t bucket);

  std::vector<ReducedParameter> parameters_;
  std::shared_ptr<ProcessGroup> group_;
  std::vector<std::vector<std::size_t>> assignment_;
  std::vector<Bucket> buckets_;
  std::vector<Slot> slots_;  // one for each parameter
  bool local_only_ = false;

  // Of the backward that is running.
  bool is_synced_ = false;
  std::size_t launched_ = 0;  // buckets
  core::Traffic traffic_before_;
  IterationRecord record_;

  Interval forward_;
  IterationRecord last_;

  std::vector<autograd::Registration> registrations_;  // the last member: nobody calls once the others go
};

}  // namespace tandem::distributed
