// The guarded device: kernels compute there as on the CPU, and nobody else touches its memory.
#include <gtest/gtest.h>

#include <cstring>

#include "tandem/core/allocator.h"
#include "tandem/core/ops/batch_norm.h"
#include "tandem/core/ops/binary.h"
#include "tandem/core/ops/cross_entropy.h"
#include "tandem/core/ops/linear.h"
#include "tandem/core/tensor.h"
#include "tests/errors.h"

namespace tandem::core {
namespace {

using testing::error_of;

Tensor guarded(const std::vector<float>& values, const Shape& shape) { return Tensor::from(values, shape, kGuarded); }

TEST(Guarded, CopiesGoThereAndBack) {
  const Tensor there = guarded({1, 2, 3, 4, 5, 6}, {2, 3});
  EXPECT_EQ(there.device(), kGuarded);
  EXPECT_EQ(there.to_vector<float>(), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(there.to(kCpu).device(), kCpu);
  EXPECT_EQ(there.transpose(0, 1).to(kCpu).to_vector<float>(), (std::vector<float>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(there.select(0, 1).select(0, 2).item(), 6);
  EXPECT_EQ(there.slice(1, 0, 1).str(), "float32 [2, 1] {1, 4}");
  EXPECT_EQ(there.to(DType::int64).to_vector<std::int64_t>().back(), 6);
  EXPECT_TRUE(there.to(kGuarded).is_same_view(there));
  EXPECT_FALSE(Tensor().to(kGuarded).defined());
  EXPECT_EQ(Tensor::zeros({0, 3}, {.device = kGuarded}).to(kCpu).numel(), 0);
}

TEST(Guarded, LayoutIsKept) {
  Tensor image = Tensor::zeros({2, 3, 4, 5}, {.device = kCpu, .format = MemoryFormat::channels_last});
  EXPECT_TRUE(image.to(kGuarded).is_channels_last());
  EXPECT_TRUE(image.to(kGuarded).to(kCpu).is_channels_last());
}

TEST(Guarded, TheHostHasNoAccess) {
  Tensor there = guarded({1, 2}, {2});
  const std::string expected = "tensor: the host cannot access float32 [2] on guarded; a copy on the CPU is to(kCpu)";
  EXPECT_EQ(error_of([&] { there.data<float>(); }), expected);
  EXPECT_EQ(error_of([&] { there.mutable_data<float>(); }), expected);
  EXPECT_EQ(error_of([&] { there.raw_data(); }), expected);
  EXPECT_EQ(error_of([&] { there.mutable_raw_data(); }), expected);
}

// What goes past these doors, as a library does that is handed the address, dies at once.
TEST(GuardedDeathTest, TouchingItsMemoryEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const Tensor there = guarded({1, 2}, {2});
  float* const address = static_cast<float*>(there.storage()->data());
  float read = 0;
  EXPECT_DEATH(read = *const_cast<volatile float*>(address), "") << read;
  EXPECT_DEATH(*const_cast<volatile float*>(address) = 1, "");
  EXPECT_DEATH(read += static_cast<float>(std::memcmp(address, &read, sizeof(read))), "") << read;
}

TEST(Guarded, OperandsOnTwoDevicesAreNamed) {
  const Tensor here = Tensor::zeros({2}, {.device = kCpu});
  TANDEM_EXPECT_ERROR(add(guarded({1, 2}, {2}), here),
                      "add: all operands must be on one device, got float32 [2] on guarded, float32 [2] on cpu");
}

// Saved tensors and packed weights are told of changes by the version.
TEST(Guarded, ChangesByKernelsCount) {
  Tensor weight = guarded({1, 2, 3, 4}, {2, 2});
  const Tensor x = guarded({1, 1, 2, 2}, {2, 2});
  const auto product = [&] { return linear(x, weight, Tensor()).to_vector<float>(); };
  for (int i = 0; i < 3; ++i) EXPECT_EQ(product(), (std::vector<float>{3, 7, 6, 14}));
  const std::uint64_t before = weight.version();
  product();
  EXPECT_EQ(weight.version(), before) << "a kernel that reads changes nothing";
  accumulate(weight, guarded({1, 1, 1, 1}, {2, 2}));
  EXPECT_GT(weight.version(), before);
  EXPECT_EQ(product(), (std::vector<float>{5, 9, 10, 18}));
  weight.storage()->bump_version();
  EXPECT_EQ(product(), (std::vector<float>{5, 9, 10, 18}));
}

TEST(Guarded, StructsOfTensorsAreLent) {
  const Tensor x = guarded({1, 2, 3, 4, 5, 7}, {3, 2});
  const BatchNormForward there = batch_norm_training(x, Tensor(), Tensor(), 1e-5);
  const BatchNormForward here = batch_norm_training(x.to(kCpu), Tensor(), Tensor(), 1e-5);
  EXPECT_EQ(there.output.to_vector<float>(), here.output.to_vector<float>());
  const Tensor target = Tensor::from(std::vector<std::int64_t>{0, 1, -100}, kGuarded);
  const CrossEntropyResult loss = cross_entropy(x, target);
  EXPECT_EQ(loss.loss.item(), cross_entropy(x.to(kCpu), target.to(kCpu)).loss.item());
  EXPECT_EQ(loss.loss.device(), kGuarded);
}

TEST(Guarded, HasAnAllocatorOfItsOwn) {
  const auto in_use = [](Device device) { return allocator(device).statistics().in_use; };
  const std::size_t here = in_use(kCpu), there = in_use(kGuarded);
  const Tensor tensor = Tensor::empty({1000}, {.device = kGuarded});
  EXPECT_EQ(in_use(kCpu), here);
  EXPECT_GE(in_use(kGuarded), there + 4000);
  allocator(kGuarded).empty_cache();
  const Tensor again = Tensor::zeros({1 << 20}, {.device = kGuarded});
  EXPECT_EQ(again.slice(0, 1000, 1001).item(), 0);
}

TEST(Device, NamesAreReadAndWritten) {
  for (const char* name : {"cpu", "guarded", "cuda:0", "cuda:7"}) EXPECT_EQ(parse_device(name).str(), name);
  EXPECT_EQ(parse_device("cuda").str(), "cuda:0");
  for (const char* name : {"", "gpu", "cuda:", "cuda:x", "cuda:1x", "cuda:-1", "cuda:99999"})
    EXPECT_EQ(error_of([&] { parse_device(name); }),
              std::string("device: '") + name + "' is none; must be cpu, cuda or cuda:N");
}

}  // namespace
}  // namespace tandem::core
