// The plan of buckets, and their memory: lines 5, 6 and 8 of what DDP promises.
#include "tandem/distributed/bucket_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "tandem/distributed/bucket_memory.h"
#include "tandem/distributed/reducer.h"
#include "tests/errors.h"

namespace tandem::distributed {
namespace {

using autograd::Variable;
using core::DType;
using core::Tensor;
using Buckets = std::vector<std::vector<std::size_t>>;

std::vector<std::size_t> in_order(std::size_t count) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  return order;
}

Buckets assign(const std::vector<BucketItem>& items, const std::vector<std::size_t>& limits) {
  return plan_buckets(items, in_order(items.size()), limits).members();
}

BucketItem floats(std::size_t count) { return {.bytes = 4 * count}; }
BucketItem doubles(std::size_t count) { return {.bytes = 8 * count, .dtype = DType::float64}; }

std::vector<BucketItem> alternating() {
  return {floats(50), doubles(25), floats(50), doubles(25), floats(50), doubles(25)};
}

TEST(Line5, a_bucket_closes_when_its_bytes_reach_the_limit) {
  EXPECT_EQ(assign({floats(100), floats(200), floats(100), floats(50)}, {400}), (Buckets{{0}, {1}, {2}, {3}}));
  EXPECT_EQ(assign({floats(99), floats(200), floats(1)}, {400}), (Buckets{{0, 1}, {2}}));  // overshoots, never splits
}

TEST(Line5, each_dtype_fills_buckets_of_its_own) {
  EXPECT_EQ(assign(alternating(), {400}), (Buckets{{0, 2}, {1, 3}, {4}, {5}}));
}

TEST(Line5, each_dtype_has_its_own_position_in_the_limits_and_the_last_limit_repeats) {
  EXPECT_EQ(assign({floats(10), floats(10), floats(10), floats(10)}, {40, 80}), (Buckets{{0}, {1, 2}, {3}}));
  EXPECT_EQ(assign(alternating(), {200, 400}), (Buckets{{0}, {1}, {2, 4}, {3, 5}}));
}

TEST(Line5, limit_zero_gives_each_its_own_and_nothing_gives_none) {
  EXPECT_EQ(assign({floats(3), doubles(2), floats(0)}, {0}), (Buckets{{0}, {1}, {2}}));
  EXPECT_EQ(assign({}, {400}), Buckets{});
  TANDEM_EXPECT_ERROR(assign({floats(1)}, {}), "no limits");
}

TEST(Line5, devices_do_not_mix) {
  std::vector<BucketItem> items{floats(1), floats(1), floats(1)};
  items[1].device = {.type = core::DeviceType::cuda, .index = 1};
  EXPECT_EQ(assign(items, {400}), (Buckets{{0, 2}, {1}}));
}

TEST(BucketPlan, says_where_each_item_lies) {
  const std::vector<BucketItem> items{floats(3), doubles(9), floats(0), floats(17), doubles(1)};
  const BucketPlan plan(items, {{4, 1}, {3, 2, 0}});
  ASSERT_EQ(plan.size(), 2u);
  EXPECT_EQ(plan.item_count(), 5u);
  EXPECT_EQ(plan[0].dtype, DType::float64);
  EXPECT_EQ(plan[0].offsets, (std::vector<std::int64_t>{0, 8}));  // 64 bytes
  EXPECT_EQ(plan[0].numel, 8 + 16);
  EXPECT_EQ(plan[0].bytes(), 24u * 8);
  EXPECT_EQ(plan[1].offsets, (std::vector<std::int64_t>{0, 32, 32}));  // an item of no elements takes no room
  EXPECT_EQ(plan[1].numel, 48);
  EXPECT_EQ(plan[1].bytes(), 48u * 4);
  EXPECT_EQ(plan.slot_of(0).bucket, 1u);
  EXPECT_EQ(plan.slot_of(0).place, 2u);
  EXPECT_EQ(plan.slot_of(0).offset, 32);
}

TEST(BucketPlan, every_item_has_one_place) {
  const std::vector<BucketItem> items{floats(1), doubles(1), floats(1)};
  TANDEM_EXPECT_ERROR(BucketPlan(items, {{0}, {1}}), "bucket plan: item 2 is in no bucket");
  TANDEM_EXPECT_ERROR(BucketPlan(items, {{0}, {1}, {2, 0}}), "bucket plan: item 0 is planned twice");
  TANDEM_EXPECT_ERROR(BucketPlan(items, {{0, 2}, {1, 3}}), "bucket plan: no item 3, there are 3");
  TANDEM_EXPECT_ERROR(BucketPlan(items, {{3}}), "bucket plan: no item 3, there are 3");
  TANDEM_EXPECT_ERROR(BucketPlan(items, {{0, 1}, {2}}), "bucket plan: items 0 and 1 share bucket 0, but not dtype");
  TANDEM_EXPECT_ERROR(BucketPlan(items, {{0, 2}, {}, {1}}), "bucket plan: bucket 1 holds no item");
  const std::vector<std::size_t> twice{0, 1, 2, 1}, beyond{0, 1, 5}, limits{0};
  TANDEM_EXPECT_ERROR(plan_buckets(items, twice, limits), "bucket plan: item 1 is planned twice");
  TANDEM_EXPECT_ERROR(plan_buckets(items, beyond, limits), "bucket plan: no item 5, there are 3");
}

TEST(BucketPlan, of_any_items_slots_are_aligned_and_apart_and_buckets_are_full_but_not_overfull) {
  std::mt19937 random(1);
  const DType dtypes[] = {DType::float32, DType::float64, DType::bfloat16};
  for (int round = 0; round < 500; ++round) {
    std::vector<BucketItem> items(random() % 30);
    for (BucketItem& item : items) {
      item.dtype = dtypes[random() % 3];
      item.bytes = random() % 100 * core::item_size(item.dtype);
    }
    std::vector<std::size_t> order = in_order(items.size()), seen;
    std::shuffle(order.begin(), order.end(), random);
    const std::size_t limit = random() % 500;
    const BucketPlan plan = plan_buckets(items, order, std::vector{limit});
    std::map<DType, std::size_t> last;
    for (std::size_t b = 0; b < plan.size(); ++b) {
      const BucketPlan::Bucket& bucket = plan[b];
      std::size_t end = 0, bytes = 0;
      for (std::size_t place = 0; place < bucket.members.size(); ++place) {
        const std::size_t item = bucket.members[place], item_size = core::item_size(bucket.dtype);
        const std::size_t begin = static_cast<std::size_t>(bucket.offsets[place]) * item_size;
        ASSERT_TRUE(bytes == 0 || bytes < limit) << "the bucket was full before its last item";
        ASSERT_EQ(begin % 64, 0u);
        ASSERT_GE(begin, end);
        ASSERT_EQ(items[item].dtype, bucket.dtype);
        ASSERT_EQ(plan.slot_of(item).bucket, b);
        ASSERT_EQ(plan.slot_of(item).place, place);
        ASSERT_EQ(plan.slot_of(item).offset, bucket.offsets[place]);
        end = begin + items[item].bytes;
        bytes += items[item].bytes;
        seen.push_back(item);
      }
      ASSERT_LE(end, bucket.bytes());
      ASSERT_LT(bucket.bytes() - end, 64u);
      if (bytes < limit) {
        ASSERT_EQ(last.count(bucket.dtype), 0u) << "two buckets of a dtype that are not full";
        last[bucket.dtype] = b;
      }
    }
    std::sort(seen.begin(), seen.end());
    ASSERT_EQ(seen, in_order(items.size()));
    // The members alone say all: what a profile holds gives the plan back.
    EXPECT_EQ(BucketPlan(items, plan.members()).members(), plan.members());
  }
}

std::vector<ReducedParameter> parameters_of(const std::vector<Tensor>& tensors) {
  std::vector<ReducedParameter> all;
  for (const Tensor& tensor : tensors) all.push_back({"", Variable(tensor, true)});
  return all;
}

std::vector<ReducedParameter> variables(const std::vector<core::Shape>& shapes) {
  std::vector<Tensor> tensors;
  for (const core::Shape& shape : shapes) tensors.push_back(Tensor::zeros(shape));
  return parameters_of(tensors);
}

Buckets assign_in_reverse(const std::vector<ReducedParameter>& parameters, const BucketLimits& limits) {
  return initial_plan(parameters, limits).members();
}

/// Torchvision's ResNet18, parameters in order of registration.
std::vector<ReducedParameter> resnet18() {
  std::vector<core::Shape> shapes;
  const auto norm = [&](std::int64_t channels) { shapes.insert(shapes.end(), {{channels}, {channels}}); };
  shapes.push_back({64, 3, 7, 7});
  norm(64);
  for (const std::int64_t channels : {64, 128, 256, 512}) {
    for (int block = 0; block < 2; ++block) {
      const std::int64_t in = block == 0 && channels > 64 ? channels / 2 : channels;
      shapes.push_back({channels, in, 3, 3});
      norm(channels);
      shapes.push_back({channels, channels, 3, 3});
      norm(channels);
      if (in == channels) continue;
      shapes.push_back({channels, in, 1, 1});
      norm(channels);
    }
  }
  shapes.push_back({1000, 512});
  shapes.push_back({1000});
  return variables(shapes);
}

TEST(Line6, resnet18_has_the_buckets_of_pytorch) {
  const std::vector<ReducedParameter> parameters = resnet18();
  ASSERT_EQ(parameters.size(), 62u);
  const Buckets buckets = assign_in_reverse(parameters, BucketLimits{});
  std::vector<std::size_t> bytes;
  for (const auto& bucket : buckets) {
    bytes.push_back(0);
    for (const std::size_t index : bucket) bytes.back() += parameters[index].variable.data().bytes();
  }
  EXPECT_EQ(bytes, (std::vector<std::size_t>{2052000, 28852224, 15853824}));
  EXPECT_EQ(buckets[0], (std::vector<std::size_t>{61, 60}));  // the last registered first
}

TEST(Line6, the_first_limit_is_never_above_the_cap_and_cap_zero_sends_each_alone) {
  const std::vector<ReducedParameter> all = variables({{100}, {100}, {100}, {100}});
  EXPECT_EQ(assign_in_reverse(all, {.cap = 400, .first = 1 << 20}), (Buckets{{3}, {2}, {1}, {0}}));
  EXPECT_EQ(assign_in_reverse(all, {.cap = 1 << 20, .first = 400}), (Buckets{{3}, {2, 1, 0}}));
  EXPECT_EQ(assign_in_reverse(all, {.cap = 0, .first = 400}), (Buckets{{3}, {2}, {1}, {0}}));
  EXPECT_EQ(assign_in_reverse(all, {.cap = 1 << 20, .first = 1 << 20}), (Buckets{{3, 2, 1, 0}}));
}

TEST(Line8, slots_are_aligned_lie_as_their_parameters_and_leave_zeros_between) {
  const Tensor channels_last = Tensor::zeros({3, 5, 3, 3}, {.format = core::MemoryFormat::channels_last});
  const Tensor transposed = Tensor::zeros({7, 3}).transpose(0, 1);
  const Tensor stepped = Tensor::zeros({10}).slice(0, 0, 10, 2);
  const auto parameters = parameters_of({channels_last, transposed, stepped, Tensor::zeros({0, 4}), Tensor::zeros({})});
  const BucketPlan plan(items_of(parameters), {in_order(parameters.size())});
  const BucketMemory memory = allocate_bucket(plan[0], parameters);
  ASSERT_EQ(memory.slots.size(), parameters.size());
  EXPECT_TRUE(memory.slots[0].is_channels_last());
  EXPECT_EQ(memory.slots[1].strides(), transposed.strides());
  EXPECT_TRUE(memory.slots[2].is_contiguous());  // a gap between elements is not sent
  std::int64_t used = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Tensor slot = memory.slots[i];
    EXPECT_EQ(slot.shape(), parameters[i].variable.shape());
    EXPECT_EQ(slot.offset() * 4 % 64, 0);
    slot.fill(1);
    used += slot.numel();
  }
  const auto values = memory.flat.to_vector<float>();
  EXPECT_EQ(std::accumulate(values.begin(), values.end(), 0.0), static_cast<double>(used));  // nothing lies twice
  EXPECT_EQ(memory.flat.numel() % 16, 0);
}

}  // namespace
}  // namespace tandem::distributed
