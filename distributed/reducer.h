// Reducer: averages the gradients of a set of parameters over the ranks of a group while backward still computes.
//
// It is Algorithm 1 of Li et al., PyTorch Distributed (VLDB 2020), on the four things that a leaf offers
// (autograd/leaf.h):
//
//   constructor              assigns parameters to buckets; each bucket slot becomes its leaf's gradient destination;
//                            a hook on every leaf
//   begin                    when a synced backward begins: each bucket waits for as many gradients as it has
//                            parameters; those that backward will not reach are ready at once
//   gradient_is_ready        the hook: one gradient less to wait for
//   launch                   hands complete buckets to the group, in order of their index on every rank
//   finish                   at the end of backward: waits until all averages are in place
//
// If nothing is to be sent (local_only), gradients accumulate in the same slots. Beside it, each alone: which
// parameters share a bucket (bucket_plan.h), when a bucket may go (launch_rule.h), what becomes of unused parameters
// (unused_parameters.h), how a bucket is averaged (comm_hook.h), what one iteration did (statistics.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "tandem/autograd/engine.h"
#include "tandem/autograd/leaf.h"
#include "tandem/core/traffic.h"
#include "tandem/distributed/bucket_plan.h"
#include "tandem/distributed/comm_hook.h"
#include "tandem/distributed/launch_rule.h"
#include "tandem/distributed/process_group.h"
#include "tandem/distributed/reduced_parameter.h"
#include "tandem/distributed/statistics.h"
#include "tandem/distributed/unused_parameters.h"

namespace tandem::distributed {

using autograd::Variable;

/// In which order parameters fill buckets: as registered, reversed; or as rank 0's gradients arrived in the first
/// synced backward, after which buckets are built anew, once.
enum class BucketOrder : std::uint8_t { reverse, observed };

struct ReducerOptions {
  BucketLimits limits;
  BucketOrder order = BucketOrder::reverse;
  bool overlap = true;  ///< else buckets are launched once backward has ended, for comparison
  UnusedMode unused = UnusedMode::forbidden;
};

/// The buckets that a reducer begins with: parameters in the reverse order of registration.
BucketPlan initial_plan(const std::vector<ReducedParameter>& parameters, const BucketLimits& limits);

class Reducer final : private autograd::BackwardObserver {
 public:
  /// Throws Error if there are no parameters, or if one of them has another owner already.
  Reducer(std::vector<ReducedParameter> parameters, std::shared_ptr<ProcessGroup> group, const ReducerOptions& options,
          std::unique_ptr<CommHook> hook = std::make_unique<AllReduceHook>());
  /// If a synced backward failed on this rank alone, the others are told why.
  ~Reducer() override;

  /// Whether backwards that begin from now on are this rank's own affair: gradients accumulate, nothing is sent.
  void set_local_only(bool local_only) { local_only_ = local_only; }
  /// Takes part in a synced backward of the other ranks where this one has no loss: with zeros, and what accumulated.
  void backward_without_loss();
  /// For the record of the next backward.
  void note_forward(const Interval& forward) { forward_ = forward; }

  /// Synced backwards so far. The same on all ranks.
  std::int64_t iterations() const { return last_.iteration; }
  /// The last synced backward that ended well.
  const IterationRecord& last_iteration() const { return last_; }
  const std::vector<ReducedParameter>& parameters() const { return parameters_; }
  /// Which parameters share a bucket, and where their gradients lie: items are indices into the parameters.
  const BucketPlan& plan() const { return *plan_; }

 private:
  struct Bucket {
    std::string name;  // for messages: "bucket 1 (conv2.weight, conv2.bias)"
    std::vector<core::Tensor> slots;
    GradientBucket gradients;  // what the hook sees
    WorkPtr work;              // from its launch until it has been waited for
  };

  void backward_begins(autograd::BackwardPass& pass, std::span<const Variable> reached) override;
  void begin();
  void record_local(autograd::BackwardPass& pass);
  void gradient_is_ready(std::size_t parameter);
  void launch(LaunchRule::Buckets buckets);
  void finish();
  void abandon(const std::string& cause);

  void assign(BucketPlan plan);
  void rebuild_in_order_of_arrival();
  core::Tensor& slot_of(std::size_t parameter);
  void mark_ready(std::size_t parameter);
  void settle(std::size_t parameter);
  void check_all_came() const;

  std::vector<ReducedParameter> parameters_;
  std::unordered_map<const void*, std::size_t> index_of_;  // by variable
  std::shared_ptr<ProcessGroup> group_;
  const ReducerOptions options_;
  const std::unique_ptr<CommHook> hook_;
  UnusedParameters unused_;
  std::shared_ptr<const BucketPlan> plan_;
  LaunchRule rule_;
  std::vector<Bucket> buckets_;
  bool local_only_ = false;

  // Of the synced backward that is running.
  bool is_running_ = false;
  bool is_anything_sent_ = false;
  std::optional<std::size_t> last_ready_;  // parameter
  core::Traffic traffic_before_;
  IterationRecord record_;

  WorkPtr abandoned_;  // what took the place of an iteration that failed before anything was sent
  std::string why_abandoned_;
  Interval forward_;   // since the backward before
  LocalPasses local_;  // since the last synced backward
  IterationRecord last_;

  std::vector<autograd::Registration> destinations_;   // one for each parameter
  std::vector<autograd::Registration> registrations_;  // the last member: nobody calls once the others go
};

}  // namespace tandem::distributed
