#include "tandem/core/ops/dropout.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/core/awkward.h"
#include "tests/elements.h"

namespace tandem::core {
namespace {

using namespace testing;

const PhiloxStream kStream = RandomContext{.seed = 7, .epoch = 1, .step = 2, .shard = 3}.stream(4);

bool kept(std::int64_t i, double p) {
  const std::uint32_t word = kStream.block(static_cast<std::uint32_t>(i / 4))[static_cast<std::size_t>(i % 4)];
  return static_cast<double>(word) >= p * 0x1p32;
}

TEST(Dropout, FollowsTheStreamWordForWord) {
  for (const DType dtype : kFloating)
    for (const std::int64_t n : {0, 1, 3, 31, 32, 33, 63, 64, 65, 1023, 1024, 1025, 5000})
      for (const double p : {0., 0.1, 0.5, 0.97, 1.}) {
        const Tensor x = Tensor::full({n}, 3, {.dtype = dtype});
        const DropoutResult result = dropout(x, p, kStream);
        const auto mask = result.mask.to_vector<std::uint8_t>();
        const auto output = result.output.to_vector<double>();
        const double expected = Tensor::scalar(3 / (1 - (p < 1 ? p : 0)), dtype).item();
        for (std::int64_t i = 0; i < n; ++i) {
          ASSERT_EQ(mask[static_cast<std::size_t>(i)], kept(i, p)) << "n " << n << " p " << p << " i " << i;
          ASSERT_NEAR(output[static_cast<std::size_t>(i)], kept(i, p) ? expected : 0, expected * 1e-6);
        }
      }
}

TEST(Dropout, OrderIsThatOfMemoryWhereDense) {
  const Tensor x = counting({2, 3, 4, 5}).contiguous(MemoryFormat::channels_last);
  for (const Tensor& dense : {x, x.transpose(1, 3), counting({6, 7}).transpose(0, 1)}) {
    const DropoutResult result = dropout(dense, 0.5, kStream);
    EXPECT_EQ(result.output.strides(), dense.strides());
    EXPECT_EQ(result.mask.strides(), dense.strides());
    EXPECT_EQ(result.mask.shape(), dense.shape());
    const auto mask = testing::elements_of<std::uint8_t>(result.mask);
    const auto output = testing::elements_of<float>(result.output), given = testing::elements_of<float>(dense);
    for (std::size_t i = 0; i < given.size(); ++i) {
      const bool is_kept = kept(static_cast<std::int64_t>(i), 0.5);
      ASSERT_EQ(mask[i], is_kept);
      ASSERT_EQ(output[i], is_kept ? 2 * given[i] : 0);
    }
  }
}

TEST(Dropout, ViewsWithGapsBecomeContiguous) {
  const Tensor x = counting({8, 10});
  for (const Tensor& view : {x.slice(1, 1, 9, 3), x.slice(1, 2, 7).transpose(0, 1), x.select(0, 1).expand({4, 10})}) {
    const DropoutResult a = dropout(view, 0.5, kStream), b = dropout(view.clone().contiguous(), 0.5, kStream);
    EXPECT_TRUE(a.output.is_contiguous());
    EXPECT_EQ(a.output.to_vector<float>(), b.output.to_vector<float>());
    EXPECT_EQ(a.mask.to_vector<std::uint8_t>(), b.mask.to_vector<std::uint8_t>());
  }
}

TEST(Dropout, SameBitsForAnyNumberOfThreads) {
  const Tensor x = counting({1000, 77});
  const auto output = [&] { return dropout(x, 0.3, kStream).output.to_vector<float>(); };
  EXPECT_EQ(with_threads(3, output), with_threads(1, output));
}

TEST(Dropout, KeepsTheRightShare) {
  const DropoutResult result = dropout(Tensor::full({200000}, 1), 0.2, kStream);
  double share = 0;
  for (const std::uint8_t keep : result.mask.to_vector<std::uint8_t>()) share += keep / 200000.;
  EXPECT_NEAR(share, 0.8, 0.005);
}

TEST(Dropout, DroppedNanIsZero) {
  const DropoutResult result = dropout(Tensor::full({100}, std::nan("")), 0.5, kStream);
  const auto output = result.output.to_vector<float>();
  for (int i = 0; i < 100; ++i) {
    const float value = output[static_cast<std::size_t>(i)];
    EXPECT_EQ(std::isnan(value), kept(i, 0.5));
    EXPECT_TRUE(std::isnan(value) || value == 0);
  }
}

TEST(Dropout, BackwardScalesWhatWasKept) {
  for (const DType dtype : kFloating) {
    const Tensor x = counting({2, 3, 4, 5}, dtype).contiguous(MemoryFormat::channels_last);
    const Tensor mask = dropout(x, 0.5, kStream).mask;
    const auto keep = mask.to_vector<std::uint8_t>();
    const Tensor contiguous = counting({2, 3, 4, 5}, dtype);
    const Tensor stepped = counting({2, 3, 4, 10}, dtype).slice(3, 0, 10, 2);
    const Tensor expanded = Tensor::full({1}, 3, {.dtype = dtype}).expand({2, 3, 4, 5});
    for (const Tensor& dy : {contiguous, stepped, expanded, x}) {
      const Tensor dx = dropout_backward(dy, mask, 0.5);
      EXPECT_EQ(dx.strides(), mask.strides());
      const auto values = dx.to_vector<double>(), given = dy.to_vector<double>();
      for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], keep[i] ? 2 * given[i] : 0);
    }
  }
}

TEST(Dropout, BackwardReusesMemoryThatNobodyElseSees) {
  const Tensor mask = dropout(counting({40}), 0.5, kStream).mask;
  Tensor dy = counting({40});
  const void* memory = testing::address_of(dy);
  const Tensor shared = dropout_backward(dy, mask, 0.5);
  EXPECT_NE(testing::address_of(shared), memory);
  EXPECT_EQ(dy.to_vector<float>()[39], 39);  // untouched
  const Tensor reused = dropout_backward(std::move(dy), mask, 0.5);
  EXPECT_EQ(testing::address_of(reused), memory);
  EXPECT_EQ(reused.to_vector<float>(), shared.to_vector<float>());
}

TEST(Dropout, ErrorsNameTheRule) {
  const Tensor x = counting({4});
  TANDEM_EXPECT_ERROR(dropout(x, 1.5, kStream), "dropout: probability 1.5 is not in [0, 1]");
  TANDEM_EXPECT_ERROR(dropout(x, std::nan(""), kStream), "is not in [0, 1]");
  TANDEM_EXPECT_ERROR(dropout(Tensor::arange(4), 0.5, kStream), "float32, float64 or bfloat16, got int64");
  TANDEM_EXPECT_ERROR(dropout_backward(x, Tensor::zeros({5}, {.dtype = DType::uint8}), 0.5), "[4] and mask [5]");
  TANDEM_EXPECT_ERROR(dropout_backward(x, x, 0.5), "the mask is float32, not uint8");
}

}  // namespace
}  // namespace tandem::core
