#include "tandem/core/ops/dispatch.h"

#include <new>
#include <stdexcept>

#include "tests/errors.h"

namespace tandem::core {
namespace {

namespace kernels {
template <DeviceType>
void foreign(const Tensor& /*x*/, int /*size*/, const Tensor& /*weight*/, Tensor& /*y*/) {
  throw std::runtime_error("could not create a primitive");
}
template <DeviceType>
void without_memory(const Tensor& /*x*/) {
  throw std::bad_alloc();
}
template <DeviceType>
void own(const Tensor& /*x*/) {
  fail("sum: no dimension {} in {}", 3, "[2, 2]");
}
}  // namespace kernels

const Tensor x = Tensor::zeros({2, 3}, {.device = kCpu});
const Tensor weight = Tensor::zeros({4, 3}, {.dtype = DType::bfloat16, .device = kCpu});

TEST(Dispatch, ForeignExceptionsNameTheOperatorAndItsOperands) {
  Tensor y;
  EXPECT_EQ(testing::error_of([&] { TANDEM_DISPATCH("linear", kCpu, foreign, x, 2, weight, y); }),
            "linear: the kernel failed for float32 [2, 3], bfloat16 [4, 3]: could not create a primitive");
  EXPECT_EQ(testing::error_of([&] { TANDEM_DISPATCH("linear", kCpu, without_memory, weight); }),
            "linear: the kernel failed for bfloat16 [4, 3]: no memory");
}

TEST(Dispatch, AllOperandsAreOnOneDevice) {
  Tensor y;
  const Tensor guarded = weight.to(kGuarded);
  EXPECT_EQ(testing::error_of([&] { TANDEM_DISPATCH("linear", kCpu, foreign, x, 2, guarded, y); }),
            "linear: all operands must be on one device, got float32 [2, 3] on cpu, bfloat16 [4, 3] on guarded");
  EXPECT_EQ(testing::error_of([&] { TANDEM_DISPATCH("linear", kGuarded, own, x); }),
            "linear: all operands must be on one device, got float32 [2, 3] on cpu");
}

TEST(Dispatch, ADeviceWithoutKernelsIsNamed) {
  const Device gpu{.type = DeviceType::cuda, .index = 1};
  EXPECT_EQ(testing::error_of([&] { TANDEM_DISPATCH("linear", gpu, own, Tensor()); }),
            "linear: this build has no kernels for device cuda:1");
}

TEST(Dispatch, OwnErrorsPassAsTheyAre) {
  EXPECT_EQ(testing::error_of([&] { TANDEM_DISPATCH("linear", kCpu, own, x); }), "sum: no dimension 3 in [2, 2]");
}

}  // namespace
}  // namespace tandem::core
