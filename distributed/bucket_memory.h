// The memory of a bucket of gradients, which is gradient memory: each parameter's gradient has a slot in its bucket,
// kernels write into it, and the bucket is sent as it lies. Nothing is copied.
#pragma once

#include <vector>

#include "tandem/distributed/bucket_plan.h"
#include "tandem/distributed/reduced_parameter.h"

namespace tandem::distributed {

/// What a plan needs to know of parameters.
std::vector<BucketItem> items_of(const std::vector<ReducedParameter>& parameters);

/// One bucket's memory: a slot for each member, shaped and laid out as the parameter. What lies between slots is zero,
/// and stays so.
struct BucketMemory {
  core::Tensor flat;                ///< [elements], what is sent
  std::vector<core::Tensor> slots;  ///< views of it, one for each member
};
/// `parameters` are all that were planned.
BucketMemory allocate_bucket(const BucketPlan::Bucket& bucket, const std::vector<ReducedParameter>& parameters);

}  // namespace tandem::distributed
