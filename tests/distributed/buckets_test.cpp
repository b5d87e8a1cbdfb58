// Assignment of gradients to buckets, and bucket memory: lines 5, 6 and 8 of what DDP promises.
#include "tandem/distributed/buckets.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/errors.h"

namespace tandem::distributed {
namespace {

using autograd::Variable;
using core::DType;
using core::Tensor;
using Buckets = std::vector<std::vector<std::size_t>>;

Buckets assign(const std::vector<BucketItem>& items, const std::vector<std::size_t>& limits) {
  return assign_buckets(std::span<const BucketItem>(items), std::span<const std::size_t>(limits));
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

std::vector<Variable> variables(const std::vector<core::Shape>& shapes) {
  std::vector<Variable> all;
  for (const core::Shape& shape : shapes) all.emplace_back(Tensor::zeros(shape), true);
  return all;
}

Buckets assign_in_reverse(std::span<const Variable> parameters, const BucketLimits& limits) {
  return assign_buckets(parameters, reverse_order(parameters.size()), limits);
}

/// Torchvision's ResNet18, parameters in order of registration.
std::vector<Variable> resnet18() {
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
  const std::vector<Variable> parameters = resnet18();
  ASSERT_EQ(parameters.size(), 62u);
  const Buckets buckets = assign_in_reverse(std::span<const Variable>(parameters), BucketLimits{});
  std::vector<std::size_t> bytes;
  for (const auto& bucket : buckets) {
    bytes.push_back(0);
    for (const std::size_t index : bucket) bytes.back() += parameters[index].data().bytes();
  }
  EXPECT_EQ(bytes, (std::vector<std::size_t>{2052000, 28852224, 15853824}));
  EXPECT_EQ(buckets[0], (std::vector<std::size_t>{61, 60}));  // the last registered first
}

TEST(Line6, the_first_limit_is_never_above_the_cap_and_cap_zero_sends_each_alone) {
  const std::vector<Variable> parameters = variables({{100}, {100}, {100}, {100}});
  const std::span<const Variable> all(parameters);
  EXPECT_EQ(assign_in_reverse(all, {.cap = 400, .first = 1 << 20}), (Buckets{{3}, {2}, {1}, {0}}));
  EXPECT_EQ(assign_in_reverse(all, {.cap = 1 << 20, .first = 400}), (Buckets{{3}, {2, 1, 0}}));
  EXPECT_EQ(assign_in_reverse(all, {.cap = 0, .first = 400}), (Buckets{{3}, {2}, {1}, {0}}));
  EXPECT_EQ(assign_in_reverse(all, {.cap = 1 << 20, .first = 1 << 20}), (Buckets{{3, 2, 1, 0}}));
}

TEST(Line8, slots_are_aligned_lie_as_their_parameters_and_leave_zeros_between) {
  const Tensor channels_last = Tensor::zeros({3, 5, 3, 3}, {.format = core::MemoryFormat::channels_last});
  const Tensor transposed = Tensor::zeros({7, 3}).transpose(0, 1);
  const Tensor stepped = Tensor::zeros({10}).slice(0, 0, 10, 2);
  const std::vector<Variable> parameters{Variable(channels_last, true), Variable(transposed, true),
                                         Variable(stepped, true), Variable(Tensor::zeros({0, 4}), true),
                                         Variable(Tensor::zeros({}), true)};
  const BucketMemory memory = allocate_bucket(parameters);
  ASSERT_EQ(memory.slots.size(), parameters.size());
  EXPECT_TRUE(memory.slots[0].is_channels_last());
  EXPECT_EQ(memory.slots[1].strides(), transposed.strides());
  EXPECT_TRUE(memory.slots[2].is_contiguous());  // a gap between elements is not sent
  std::int64_t used = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Tensor slot = memory.slots[i];
    EXPECT_EQ(slot.shape(), parameters[i].shape());
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
