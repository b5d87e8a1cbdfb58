#include "tandem/distributed/bucket_memory.h"

namespace tandem::distributed {

std::vector<BucketItem> items_of(const std::vector<ReducedParameter>& parameters) {
  std::vector<BucketItem> items;
  for (const ReducedParameter& parameter : parameters) {
    const core::Tensor& data = parameter.variable.data();
    items.push_back({.bytes = data.bytes(), .dtype = data.dtype(), .device = data.device()});
  }
  return items;
}

BucketMemory allocate_bucket(const BucketPlan::Bucket& bucket, const std::vector<ReducedParameter>& parameters) {
  BucketMemory memory{.flat = core::Tensor::zeros({bucket.numel}, {.dtype = bucket.dtype, .device = bucket.device}),
                      .slots = {}};
  for (std::size_t place = 0; place < bucket.members.size(); ++place) {
    const core::Tensor& data = parameters[bucket.members[place]].variable.data();
    const core::Strides strides = data.is_dense() ? data.strides() : core::contiguous_strides(data.shape());
    memory.slots.emplace_back(memory.flat.storage(), data.shape(), strides, bucket.offsets[place], data.dtype());
  }
  return memory;
}

}  // namespace tandem::distributed
