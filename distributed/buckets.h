// Which gradients travel together: a pure function, the same on every rank, and the memory in which they lie.
//
// Bucket memory is gradient memory: each parameter's gradient has a slot in its bucket, kernels write into it, and the
// bucket is sent as it lies. Nothing is copied.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "tandem/autograd/variable.h"

namespace tandem::distributed {

/// What decides where a gradient goes.
struct BucketItem {
  std::size_t bytes = 0;
  core::DType dtype = core::DType::float32;
  core::Device device = core::kCpu;
};

/// Lists of indices into `items`, which are taken in their order. Each (dtype, device) fills buckets of its own; one is
/// closed when its bytes reach the limit, which it may overshoot by part of one item. Its first bucket obeys limits[0],
/// its next limits[1], ...; the last limit repeats; 0 gives each item a bucket of its own. Buckets are ordered by their
/// first item. Throws Error without limits.
std::vector<std::vector<std::size_t>> assign_buckets(std::span<const BucketItem> items,
                                                     std::span<const std::size_t> limits);

struct BucketLimits {
  std::size_t cap = 25 << 20;  ///< bytes
  std::size_t first =
      1 << 20;  ///< of the bucket that is reduced first, so that communication begins early; at most cap
};

/// The same for parameters, taken in `order`, which holds each index once.
std::vector<std::vector<std::size_t>> assign_buckets(std::span<const autograd::Variable> parameters,
                                                     std::span<const std::size_t> order, const BucketLimits& limits);
/// n - 1, ..., 0: the reverse order of registration, which is about the order in which backward completes gradients
/// (Li et al. 2020, section 3.2.3).
std::vector<std::size_t> reverse_order(std::size_t n);

/// Where each parameter's slot begins in their bucket, in elements; the last number is the bucket's size. All
/// parameters have one dtype. Slots begin at multiples of 64 bytes.
std::vector<std::int64_t> slot_offsets(std::span<const autograd::Variable> parameters);

/// One bucket's memory: a slot for each parameter, shaped and laid out as the parameter. What lies between slots is
/// zero, and stays so.
struct BucketMemory {
  core::Tensor flat;                ///< [elements], what is sent
  std::vector<core::Tensor> slots;  ///< views of it, one for each parameter
};
BucketMemory allocate_bucket(std::span<const autograd::Variable> parameters);

}  // namespace tandem::distributed
