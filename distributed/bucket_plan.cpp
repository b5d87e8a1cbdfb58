#include "tandem/distributed/bucket_plan.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "tandem/core/alignment.h"
#include "tandem/core/error.h"

namespace tandem::distributed {
namespace {

using Members = std::vector<std::size_t>;

/// How far the buckets of one (dtype, device) are filled.
struct Filling {
  bool is_open = false;
  std::size_t bucket = 0;  // the one that is open
  std::size_t bytes = 0;   // in it
  std::size_t closed = 0;  // buckets before it
};

void check_item(std::size_t item, std::size_t count) {
  if (item >= count) core::fail("bucket plan: no item {}, there are {}", item, count);
}

}  // namespace

BucketPlan::BucketPlan(std::span<const BucketItem> items, const std::vector<Members>& members) : slots_(items.size()) {
  std::vector<bool> is_planned(items.size(), false);
  for (const Members& of_bucket : members) {
    if (of_bucket.empty()) core::fail("bucket plan: bucket {} holds no item", buckets_.size());
    check_item(of_bucket.front(), items.size());
    const BucketItem& first = items[of_bucket.front()];
    Bucket bucket{.members = of_bucket, .offsets = {}, .numel = 0, .dtype = first.dtype, .device = first.device};
    const auto item_size = static_cast<std::int64_t>(core::item_size(first.dtype));
    for (const std::size_t item : of_bucket) {
      check_item(item, items.size());
      if (is_planned[item]) core::fail("bucket plan: item {} is planned twice", item);
      if (items[item].dtype != first.dtype || items[item].device != first.device)
        core::fail("bucket plan: items {} and {} share bucket {}, but not dtype and device", of_bucket.front(), item,
                   buckets_.size());
      is_planned[item] = true;
      slots_[item] = {.bucket = buckets_.size(), .place = bucket.offsets.size(), .offset = bucket.numel};
      bucket.offsets.push_back(bucket.numel);
      bucket.numel += core::align_up(static_cast<std::int64_t>(items[item].bytes)) / item_size;
    }
    buckets_.push_back(std::move(bucket));
  }
  const auto missing = std::find(is_planned.begin(), is_planned.end(), false);
  if (missing != is_planned.end())
    core::fail("bucket plan: item {} is in no bucket", std::distance(is_planned.begin(), missing));
}

std::vector<Members> BucketPlan::members() const {
  std::vector<Members> all;
  for (const Bucket& bucket : buckets_) all.push_back(bucket.members);
  return all;
}

BucketPlan plan_buckets(std::span<const BucketItem> items, std::span<const std::size_t> order,
                        std::span<const std::size_t> limits) {
  if (limits.empty()) core::fail("plan_buckets: no limits, needed at least one");
  std::vector<Members> members;
  std::map<std::tuple<core::DType, core::DeviceType, int>, Filling> fillings;
  for (const std::size_t i : order) {
    check_item(i, items.size());
    Filling& filling = fillings[{items[i].dtype, items[i].device.type, items[i].device.index}];
    if (!filling.is_open) {
      filling = {.is_open = true, .bucket = members.size(), .bytes = 0, .closed = filling.closed};
      members.emplace_back();
    }
    members[filling.bucket].push_back(i);
    filling.bytes += items[i].bytes;
    if (filling.bytes < limits[std::min(filling.closed, limits.size() - 1)]) continue;
    filling.is_open = false;
    ++filling.closed;
  }
  return {items, members};
}

std::vector<std::size_t> reverse_order(std::size_t n) {
  std::vector<std::size_t> order(n);
  for (std::size_t i = 0; i < n; ++i) order[i] = n - 1 - i;
  return order;
}

}  // namespace tandem::distributed
