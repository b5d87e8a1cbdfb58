// Communication hooks: how a bucket of gradients is averaged, where it is not simply summed as it lies.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>

#include "tandem/distributed/process_group.h"

namespace tandem::distributed {

/// A bucket that is complete on this rank.
struct GradientBucket {
  std::size_t index = 0;
  Tensor flat;        ///< [elements]: this rank's gradients, one behind the other; the hook leaves averages there
  std::string label;  ///< for messages: "bucket 3 (conv1.weight, conv1.bias) of synced backward 12"
};

/// Owns everything between a complete bucket and its average, the division by the number of ranks included. All ranks
/// use the same kind of hook. A hook belongs to one DistributedDataParallel, so it may keep what it needs by bucket.
class CommHook {
 public:
  virtual ~CommHook() = default;

  /// Begins, and returns at once. Called in order of buckets, on the thread that runs backward.
  virtual WorkPtr launch(GradientBucket bucket, ProcessGroup& group) = 0;
  /// At the end of backward, once the work of this bucket has ended well: what is left to do.
  virtual void complete(GradientBucket bucket) = 0;
  /// "none", "bf16": the same on all ranks.
  virtual std::string name() const = 0;
};

/// Sums what lies in the bucket, in place and in its dtype. Each rank's gradients are divided by the number of ranks
/// before they are summed, so that no sum overflows where the average would not.
class AllReduceHook final : public CommHook {
 public:
  WorkPtr launch(GradientBucket bucket, ProcessGroup& group) override;
  void complete(GradientBucket) override {}
  std::string name() const override { return "none"; }
};

/// Sends half as many bytes: divides in the bucket's own dtype, rounds to `wire` (bfloat16 or float16), sums those, and
/// widens the sum. Throws Error, naming the bucket, where a gradient is not finite in `wire`, before or after the sum.
class CastHook final : public CommHook {
 public:
  explicit CastHook(core::DType wire);

  WorkPtr launch(GradientBucket bucket, ProcessGroup& group) override;
  void complete(GradientBucket bucket) override;
  std::string name() const override;

 private:
  core::DType wire_;
  std::map<std::size_t, Tensor> sent_;  // by bucket
};

/// By the name that --comm-hook takes: "none", "bf16", "fp16". Throws Error listing them.
std::unique_ptr<CommHook> make_comm_hook(const std::string& name);

}  // namespace tandem::distributed
