#include "tandem/core/ops/gelu.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "tests/core/awkward.h"
#include "tests/elements.h"

namespace tandem::core {
namespace {

using namespace testing;
using enum GeluApproximation;

double gelu_of(double x, GeluApproximation approximation) {
  if (approximation == none) return x * std::erfc(-x / std::numbers::sqrt2) / 2;
  return x / (1 + std::exp(-2 * std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

double slope_of(double x, GeluApproximation approximation) {
  if (approximation == none)
    return std::erfc(-x / std::numbers::sqrt2) / 2 + x * std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
  const double rate = 2 * std::sqrt(2 / std::numbers::pi);
  const double e = std::exp(-rate * (x + 0.044715 * x * x * x)), s = 1 / (1 + e);  // 1 - s = e s
  return s + (e < 1e300 ? x * s * e * s * rate * (1 + 3 * 0.044715 * x * x) : 0);
}

// 20001 places in [-16, 16], and small ones.
Tensor dense_grid(DType dtype) {
  std::vector<double> x;
  for (int i = -10000; i <= 10000; ++i) x.push_back(i * 0.0016);
  for (int i = 1; i < 30; ++i) x.insert(x.end(), {std::ldexp(1.1, -4 * i), -std::ldexp(1.1, -4 * i)});
  return Tensor::from(x).to(dtype);
}

// The result's own rounding, and that of what is small where x is not near 0: the tail, in which roundings grow with
// the exponent, -x^2 / 2 or about -x^3 / 14.
TEST(Gelu, IsExactToRoundingEverywhere) {
  for (const auto approximation : {none, tanh})
    for (const DType dtype : kFloating) {
      const Tensor x = dense_grid(dtype), dy = Tensor::full(x.shape(), 1, {.dtype = dtype});
      const auto in = x.to_vector<double>(), y = gelu(x, approximation).to_vector<double>(),
                 dx = gelu_backward(dy, x, approximation).to_vector<double>();
      const double arithmetic = epsilon(dtype == DType::float64 ? dtype : DType::float32) / 2;
      const double rounding =
          dtype == DType::bfloat16 ? 0x1p-8 : 3 * arithmetic;  // of what is near x or 1: two or three
      for (std::size_t i = 0; i < in.size(); ++i) {
        const double wanted = gelu_of(in[i], approximation), slope = slope_of(in[i], approximation);
        const double size = std::abs(in[i]), tail = in[i] > 0 ? size - wanted : -wanted;
        const double growth = approximation == none ? 4 + size * size : 8 + 3 * size * size + size * size * size;
        const double of_tail = growth * arithmetic * tail;
        ASSERT_NEAR(y[i], wanted, rounding * std::abs(wanted) + of_tail + 2e-37) << name(dtype) << " x " << in[i];
        ASSERT_NEAR(dx[i], slope, rounding + 4 * arithmetic + (1 + size * size) * of_tail)
            << name(dtype) << " x " << in[i];
      }
    }
}

TEST(Gelu, ExtremesHaveTheirLimits) {
  for (const auto approximation : {none, tanh})
    for (const DType dtype : kFloating) {
      const Tensor x = Tensor::from<double>({kInfinity, -kInfinity, kNan, 1e30, -1e30, 0}).to(dtype);
      const auto in = x.to_vector<double>(), y = gelu(x, approximation).to_vector<double>();
      const auto dx = gelu_backward(Tensor::full({6}, 1, {.dtype = dtype}), x, approximation).to_vector<double>();
      const std::vector<double> values{kInfinity, 0, kNan, in[3], 0, 0}, slopes{1, 0, kNan, 1, 0, 0.5};
      for (std::size_t i = 0; i < values.size(); ++i) {
        EXPECT_TRUE(close(y[i], values[i], 1e-30)) << in[i] << " gave " << y[i];
        EXPECT_TRUE(close(dx[i], slopes[i], 1e-7)) << in[i] << " gave " << dx[i];
      }
    }
}

double tolerance(DType dtype) { return dtype == DType::float64 ? 1e-14 : dtype == DType::float32 ? 1e-6 : 1.0 / 100; }

TEST(Gelu, EveryShapeAndLayout) {
  for (const auto approximation : {none, tanh})
    for (const DType dtype : kFloating)
      for (const Tensor& x : awkward_tensors(dtype, -5, 5)) {
        auto values = x.to_vector<double>(), slopes = values;
        for (double& v : values) v = gelu_of(v, approximation);
        for (double& v : slopes) v = 3 * slope_of(v, approximation);
        const Tensor y = gelu(x, approximation), dy = Tensor::full(x.shape(), 3, {.dtype = dtype});
        EXPECT_EQ(y.shape(), x.shape());
        expect_near(y, values, tolerance(dtype), describe(x));
        expect_near(gelu_backward(dy, x, approximation), slopes, tolerance(dtype), describe(x));
      }
}

const std::vector<Shape> kShapes{{1}, {7}, {3, 1}, {5, 300}, {300, 5}, {2, 3, 4}, {2, 3, 4, 5}, {70, 600}};

TEST(BiasGelu, MatchesTheDefinitionForwardAndBackward) {
  for (const auto approximation : {none, tanh})
    for (const DType dtype : kFloating)
      for (const Shape& shape : kShapes)
        for (const Tensor& x : layouts(normal(shape, 1, dtype), shape.rank() - 1, shape.rank() - 1)) {
          const Tensor bias = with_gaps(normal({shape.back()}, 2, dtype), 0), dy = normal(shape, 3, dtype);
          auto y = x.to_vector<double>(), dx = dy.to_vector<double>();
          const auto b = bias.to_vector<double>();
          std::vector<double> dbias(b.size(), 5);
          for (std::size_t i = 0; i < y.size(); ++i) {
            const double sum = y[i] + b[i % b.size()];
            y[i] = gelu_of(sum, approximation);
            dx[i] *= slope_of(sum, approximation);
            dbias[i % b.size()] += dx[i];
          }
          expect_near(bias_gelu(x, bias, approximation), y, tolerance(dtype), describe(x));
          Tensor to_bias = Tensor::full({2 * shape.back()}, 5, {.dtype = dtype}).slice(0, 0, 2 * shape.back(), 2);
          expect_near(bias_gelu_backward(dy, x, bias, approximation, to_bias, true), dx, tolerance(dtype), describe(x));
          expect_near(to_bias, dbias, 10 * tolerance(dtype), "dbias " + describe(x));
          bias_gelu_backward(dy, x, bias, approximation, to_bias, false);
          for (double& value : dbias) value -= 5;
          expect_near(to_bias, dbias, 10 * tolerance(dtype), "dbias, overwritten " + describe(x));
          Tensor nobody;
          expect_near(bias_gelu_backward(dy, x, bias, approximation, nobody, false), dx, tolerance(dtype), "dx alone");
        }
}

TEST(BiasGelu, SameBitsForAnyNumberOfThreads) {
  const Tensor x = normal({2000, 77}, 1, DType::float32), dy = normal({2000, 77}, 2, DType::float32);
  const Tensor bias = normal({77}, 3, DType::float32);
  const auto results = [&] {
    Tensor dbias = bias.clone();
    const Tensor dx = bias_gelu_backward(dy, x, bias, none, dbias, false);
    return std::vector{bias_gelu(x, bias).to_vector<float>(), dx.to_vector<float>(), dbias.to_vector<float>()};
  };
  EXPECT_EQ(with_threads(3, results), with_threads(1, results));
}

TEST(BiasGelu, Empty) {
  for (const Shape& shape : {Shape{0, 3}, Shape{4, 0}}) {
    const Tensor x = Tensor::zeros(shape), bias = Tensor::full({shape.back()}, 1);
    Tensor dbias = bias.clone();
    EXPECT_EQ(bias_gelu(x, bias).shape(), shape);
    EXPECT_EQ(bias_gelu_backward(x, x, bias, none, dbias, false).shape(), shape);
    EXPECT_EQ(dbias.to_vector<float>(), std::vector<float>(at(shape.back()), 0));
  }
}

TEST(Gelu, BackwardReusesMemoryThatNobodyElseSees) {
  const Tensor x = normal({6, 9}, 1, DType::float32), bias = normal({9}, 2, DType::float32);
  Tensor dy = normal({6, 9}, 3, DType::float32), dbias = bias.clone();
  const void* memory = testing::address_of(dy);
  const Tensor shared = gelu_backward(dy, x), shared_biased = bias_gelu_backward(dy, x, bias, none, dbias, false);
  EXPECT_NE(testing::address_of(shared), memory);
  Tensor copy = dy.clone();
  const Tensor reused = gelu_backward(std::move(dy), x);
  EXPECT_EQ(testing::address_of(reused), memory);
  EXPECT_EQ(reused.to_vector<float>(), shared.to_vector<float>());
  memory = testing::address_of(copy);
  const Tensor reused_biased = bias_gelu_backward(std::move(copy), x, bias, none, dbias, false);
  EXPECT_EQ(testing::address_of(reused_biased), memory);
  EXPECT_EQ(reused_biased.to_vector<float>(), shared_biased.to_vector<float>());
}

TEST(Gelu, ErrorsNameTheRule) {
  const Tensor x = Tensor::zeros({4, 3}), two = Tensor::zeros({2});
  Tensor bad = two;
  TANDEM_EXPECT_ERROR(gelu(Tensor::arange(3)), "gelu: needs float32, float64 or bfloat16, got int64 [3]");
  TANDEM_EXPECT_ERROR(gelu(Tensor()), "gelu: the tensor is undefined");
  TANDEM_EXPECT_ERROR(gelu_backward(two, x), "gelu_backward: gradient float32 [2] does not match x float32 [4, 3]");
  TANDEM_EXPECT_ERROR(bias_gelu(x, two), "bias_gelu: bias [2] does not fit x [4, 3]");
  TANDEM_EXPECT_ERROR(bias_gelu(x, {}), "bias_gelu: bias [] does not fit x [4, 3]");
  TANDEM_EXPECT_ERROR(bias_gelu(x, Tensor::zeros({3}, {.dtype = DType::float64})),
                      "bias_gelu: bias is float64, activations are float32: needed is float32");
  TANDEM_EXPECT_ERROR(bias_gelu_backward(x, x, Tensor::zeros({3}), none, bad, false),
                      "bias_gelu_backward: dbias [2] does not fit x [4, 3]");
}

}  // namespace
}  // namespace tandem::core
