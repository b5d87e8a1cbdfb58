#include "tandem/core/ops/random_fill.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/core/awkward.h"

namespace tandem::core {
namespace {

using namespace testing;

TEST(RandomFill, UniformStaysInItsRangeAndIsUniform) {
  const PhiloxStream stream = RandomContext{.seed = 3}.stream(0);
  for (const DType dtype : kFloating)
    for (const auto& [low, high] : {std::pair{0.0, 1.0}, {1.0, 2.0}, {-3.0, 5.0}, {-2.0, -1.0}}) {
      Tensor t = Tensor::empty({100001}, {.dtype = dtype});
      fill_uniform(t, low, high, stream);
      double sum = 0, squares = 0;
      for (const double v : t.to_vector<double>()) {
        ASSERT_GE(v, low);
        ASSERT_LT(v, high) << name(dtype);
        const double unit = (v - low) / (high - low);
        sum += unit;
        squares += unit * unit;
      }
      EXPECT_NEAR(sum / 100001, 0.5, 0.005);
      EXPECT_NEAR(squares / 100001, 1.0 / 3, 0.005);
    }
}

TEST(RandomFill, NormalHasItsMoments) {
  for (const DType dtype : kFloating) {
    Tensor t = Tensor::empty({333, 301}, {.dtype = dtype});
    fill_normal(t, 2, 3, RandomContext{.seed = 3}.stream(0));
    double moments[5] = {};
    for (const double v : t.to_vector<double>()) {
      const double z = (v - 2) / 3;
      for (int k = 1; k <= 4; ++k) moments[k] += std::pow(z, k) / (333 * 301);
    }
    EXPECT_NEAR(moments[1], 0, 0.01);
    EXPECT_NEAR(moments[2], 1, 0.015);
    EXPECT_NEAR(moments[3], 0, 0.04);
    EXPECT_NEAR(moments[4], 3, 0.1);
  }
}

// What element i gets does not depend on how many are drawn, nor (up to rounding) on the dtype.
TEST(RandomFill, ElementsAreFunctionsOfTheirIndex) {
  const PhiloxStream stream = RandomContext{.seed = 3}.stream(0);
  Tensor few = Tensor::empty({5}), many = Tensor::empty({100}), half = Tensor::empty({5}, {.dtype = DType::bfloat16});
  fill_normal(few, 0, 1, stream);
  fill_normal(many, 0, 1, stream);
  fill_normal(half, 0, 1, stream);
  EXPECT_EQ(few.to_vector<float>(), many.slice(0, 0, 5).to_vector<float>());
  EXPECT_EQ(few.to(DType::bfloat16).to_vector<float>(), half.to_vector<float>());
}

TEST(RandomFill, SameBitsForAnyNumberOfThreads) {
  const PhiloxStream stream = RandomContext{.seed = 3}.stream(0);
  for (const auto& fill : {fill_normal, fill_uniform}) {
    const auto draw = [&] {
      Tensor many = Tensor::empty({40'001});
      fill(many, 0, 1, stream);
      return many.to_vector<float>();
    };
    const auto alone = with_threads(1, draw);
    for (const int threads : {2, 3, 8}) EXPECT_EQ(with_threads(threads, draw), alone) << threads;
  }
}

TEST(RandomFill, RefusesWhatItCannotFill) {
  const PhiloxStream stream;
  Tensor transposed = Tensor::empty({2, 3}).transpose(0, 1), ints = Tensor::arange(3);
  TANDEM_EXPECT_ERROR(fill_uniform(transposed, 0, 1, stream),
                      "fill_uniform: needs a contiguous tensor, got shape [3, 2]");
  Tensor fine = Tensor::empty({3});
  TANDEM_EXPECT_ERROR(fill_uniform(fine, 1, 0, stream), "fill_uniform: [1, 0) is not a finite range");
  TANDEM_EXPECT_ERROR(fill_normal(ints, 0, 1, stream), "fill_normal: needs float32, float64 or bfloat16, got int64");
}

}  // namespace
}  // namespace tandem::core
