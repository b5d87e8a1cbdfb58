// BucketPlan: which gradients travel together, and where each lies. A pure function of sizes, the same on every rank:
// it knows neither tensors nor clocks, so a simulator plans with the code that the reducer plans with.
//
//   plan_buckets(items, order, limits)     closes a bucket when it holds as many bytes as its limit
//   BucketPlan(items, members)             lays out buckets whose members are known
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tandem/core/device.h"
#include "tandem/core/dtype.h"

namespace tandem::distributed {

/// What decides where a gradient goes.
struct BucketItem {
  std::size_t bytes = 0;
  core::DType dtype = core::DType::float32;
  core::Device device = core::kCpu;
};

struct BucketLimits {
  std::size_t cap = 25 << 20;  ///< bytes
  /// Of the bucket that is reduced first, so that communication begins early; at most cap.
  std::size_t first = 1 << 20;

  /// One after the other, the last one for all further buckets.
  std::vector<std::size_t> in_turn() const { return {first < cap ? first : cap, cap}; }
};

class BucketPlan {
 public:
  struct Bucket {
    std::vector<std::size_t> members;   ///< items, in order of their slots
    std::vector<std::int64_t> offsets;  ///< of each member's slot, in elements: multiples of 64 bytes
    std::int64_t numel = 0;             ///< elements with what lies between slots, which is never anybody's
    core::DType dtype = core::DType::float32;
    core::Device device = core::kCpu;

    std::size_t bytes() const { return static_cast<std::size_t>(numel) * core::item_size(dtype); }
  };
  /// Where an item lies: it is member `place` of its bucket.
  struct Slot {
    std::size_t bucket = 0, place = 0;
    std::int64_t offset = 0;  ///< elements
  };

  BucketPlan() = default;
  /// `members` are the items of each bucket, in order. Throws Error if an item is in none or in two, or if the items of
  /// a bucket differ in dtype or device.
  BucketPlan(std::span<const BucketItem> items, const std::vector<std::vector<std::size_t>>& members);

  const std::vector<Bucket>& buckets() const { return buckets_; }
  const Bucket& operator[](std::size_t bucket) const { return buckets_[bucket]; }
  std::size_t size() const { return buckets_.size(); }

  std::size_t item_count() const { return slots_.size(); }
  const Slot& slot_of(std::size_t item) const { return slots_[item]; }

  /// The items of each bucket: what two plans for the same items can differ in.
  std::vector<std::vector<std::size_t>> members() const;

 private:
  std::vector<Bucket> buckets_;
  std::vector<Slot> slots_;  // by item
};

/// Takes the items in `order`. Those of each (dtype, device) fill buckets of their own; one is closed when the bytes of
/// its items reach its limit, which it may overshoot by part of one item. The first bucket of a (dtype, device) obeys
/// limits[0], the next limits[1], ...; the last limit repeats; 0 gives each item a bucket of its own. Buckets are
/// ordered by their first item. Throws Error if there are no limits, or if `order` does not hold each item once.
BucketPlan plan_buckets(std::span<const BucketItem> items, std::span<const std::size_t> order,
                        std::span<const std::size_t> limits);

/// n - 1, ..., 0: the reverse order of registration, which is about the order in which backward completes gradients
/// (Li et al. 2020, section 3.2.3).
std::vector<std::size_t> reverse_order(std::size_t n);

}  // namespace tandem::distributed
