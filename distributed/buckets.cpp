#include "tandem/distributed/buckets.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace tandem::distributed {
namespace {

/// The bucket of one (dtype, device) that is being filled.
struct OpenBucket {
  std::vector<std::size_t> items;
  std::size_t bytes = 0;
  std::size_t closed = 0;  // buckets before it
};

}  // namespace

std::vector<std::vector<std::size_t>> assign_buckets(std::span<const BucketItem> items,
                                                     std::span<const std::size_t> limits) {
  if (limits.empty()) core::fail("assign_buckets: no limits, needed at least one");
  std::vector<std::vector<std::size_t>> buckets;
  std::map<std::tuple<core::DType, core::DeviceType, int>, OpenBucket> open;
  for (std::size_t i = 0; i < items.size(); ++i) {
    OpenBucket& bucket = open[{items[i].dtype, items[i].device.type, items[i].device.index}];
    bucket.items.push_back(i);
    bucket.bytes += items[i].bytes;
    if (bucket.bytes < limits[std::min(bucket.closed, limits.size() - 1)]) continue;
    buckets.push_back(std::exchange(bucket.items, {}));
    bucket.bytes = 0;
    ++bucket.closed;
  }
  for (auto& [kind, bucket] : open)
    if (!bucket.items.empty()) buckets.push_back(std::move(bucket.items));
  std::sort(buckets.begin(), buckets.end(), [](const auto& a, const auto& b) { return a.front() < b.front(); });
  return buckets;
}

std::vector<std::vector<std::size_t>> assign_buckets(std::span<const autograd::Variable> parameters,
                                                     std::span<const std::size_t> order, const BucketLimits& limits) {
  std::vector<BucketItem> items;
  for (const std::size_t index : order) {
    const core::Tensor& data = parameters[index].data();
    items.push_back({.bytes = data.bytes(), .dtype = data.dtype(), .device = data.device()});
  }
  const std::size_t in_turn[] = {std::min(limits.first, limits.cap), limits.cap};
  auto buckets = assign_buckets(items, in_turn);
  for (auto& bucket : buckets)
    for (std::size_t& index : bucket) index = order[index];
  return buckets;
}

std::vector<std::size_t> reverse_order(std::size_t n) {
  std::vector<std::size_t> order(n);
  for (std::size_t i = 0; i < n; ++i) order[i] = n - 1 - i;
  return order;
}

std::vector<std::int64_t> slot_offsets(std::span<const autograd::Variable> parameters) {
  constexpr std::size_t kAlignment = 64;
  const auto step = static_cast<std::int64_t>(kAlignment / core::item_size(parameters.front().dtype()));
  std::vector<std::int64_t> offsets{0};
  for (const autograd::Variable& parameter : parameters)
    offsets.push_back(offsets.back() + (parameter.data().numel() + step - 1) / step * step);
  return offsets;
}

BucketMemory allocate_bucket(std::span<const autograd::Variable> parameters) {
  const std::vector<std::int64_t> offsets = slot_offsets(parameters);
  BucketMemory memory{.flat = core::Tensor::zeros({offsets.back()}, parameters.front().data().options()), .slots = {}};
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const core::Tensor& data = parameters[i].data();
    const core::Strides strides = data.is_dense() ? data.strides() : core::contiguous_strides(data.shape());
    memory.slots.emplace_back(memory.flat.storage(), data.shape(), strides, offsets[i], data.dtype());
  }
  return memory;
}

}  // namespace tandem::distributed
