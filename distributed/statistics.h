// What one iteration, a synced backward with the forward before it, did and when: for people, metrics and simulators.
//
// All times are nanoseconds of the recorder's clock (core/recorder.h); 0: it did not happen.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tandem/distributed/bucket_plan.h"

namespace tandem::distributed {

/// From when to when.
struct Interval {
  std::int64_t begin_ns = 0, end_ns = 0;

  double ms() const { return static_cast<double>(end_ns - begin_ns) / 1e6; }
};

struct BucketRecord {
  std::int64_t bytes = 0;
  std::int64_t ready_ns = 0;     ///< its last gradient was complete
  std::int64_t launched_ns = 0;  ///< handed to the group, once those before it were
  Interval on_the_wire;          ///< its all-reduce, from when the group began it; zeros with one rank
};

/// Backwards under no_sync(), which send nothing: how many, and the sums of their times.
struct LocalPasses {
  std::int64_t count = 0;
  std::int64_t forward_ns = 0, backward_ns = 0;
};

struct IterationRecord {
  std::int64_t iteration = 0;  ///< synced backwards so far, this one included
  Interval forward;         ///< the last one through DDP's forward() since the backward before; zeros: there was none
  Interval backward;        ///< from its begin to its last node: compute alone
  std::int64_t end_ns = 0;  ///< backward returns: all averages are in place
  LocalPasses local;        ///< since the synced backward before it
  std::vector<BucketRecord> buckets;
  std::shared_ptr<const BucketPlan> plan;  ///< of `buckets`: later iterations may have another one
  /// Of each parameter, in order of registration: its gradient was complete. Taken before any wait, so a slow rank can
  /// be told from one that waits for it.
  std::vector<std::int64_t> ready_ns;

  std::int64_t bytes_sent = 0;       ///< by this rank, gradients only
  std::int64_t bytes_copied = 0;     ///< of gradients, to where they are sent from: 0 unless the user replaced some
  std::int64_t bytes_reordered = 0;  ///< of gradients, by kernels that compute in a layout of their own
  std::vector<std::string> unused_parameters;

  /// From the first launch to the last completion. 0, as all four are, with one rank, where nothing travels.
  double first_launch_to_last_completion_ms() const;
  /// Time during which gradients travelled.
  double communication_ms() const;
  /// The part of it that lies within backward's compute.
  double overlapped_ms() const;
  /// How long backward waited after its last node.
  double exposed_ms() const;
};

}  // namespace tandem::distributed
