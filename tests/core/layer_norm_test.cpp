#include "tandem/core/ops/layer_norm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/core/awkward.h"
#include "tests/elements.h"

namespace tandem::core {
namespace {

using namespace testing;

constexpr double kEps = 1e-5;

Tensor normal(const Shape& shape, std::uint32_t stream, DType dtype = DType::float64, double mean = 0.5) {
  return testing::normal(shape, stream, dtype, mean, 1.5);
}

std::vector<double> vector_or(const Tensor& vector, std::int64_t n, double otherwise) {
  return vector.defined() ? vector.to_vector<double>() : std::vector<double>(at(n), otherwise);
}

// The definition in float64.
struct Reference {
  std::vector<double> mean, inv_std, h, output;

  Reference(const Tensor& x, const Tensor& weight, const Tensor& bias) : h(x.to_vector<double>()), output(h.size()) {
    const std::int64_t n = x.shape().back();
    const auto w = vector_or(weight, n, 1), b = vector_or(bias, n, 0);
    for (std::size_t begin = 0; begin < h.size(); begin += w.size()) {
      double m = 0, variance = 0;
      for (std::size_t i = 0; i < w.size(); ++i) m += h[begin + i] / static_cast<double>(n);
      for (std::size_t i = 0; i < w.size(); ++i) variance += std::pow(h[begin + i] - m, 2) / static_cast<double>(n);
      mean.push_back(m);
      inv_std.push_back(1 / std::sqrt(variance + kEps));
      for (std::size_t i = 0; i < w.size(); ++i) {
        h[begin + i] = (h[begin + i] - m) * inv_std.back();
        output[begin + i] = h[begin + i] * w[i] + b[i];
      }
    }
  }
};

const std::vector<Shape> kShapes{{1},    {7},       {4, 1},      {3, 2},       {5, 300}, {300, 5},
                                 {1, 1}, {2, 3, 4}, {40, 3, 17}, {2, 3, 4, 5}, {33, 768}};

std::vector<Tensor> layouts(const Tensor& x) { return testing::layouts(x, x.rank() - 1, x.rank() - 1); }

double tolerance(DType dtype) { return dtype == DType::float64 ? 1e-12 : dtype == DType::float32 ? 5e-6 : 1.0 / 100; }

TEST(LayerNorm, MatchesTheDefinition) {
  for (const DType dtype : kFloating)
    for (const Shape& shape : kShapes)
      for (const Tensor& x : layouts(normal(shape, 1, dtype)))
        for (const bool affine : {false, true}) {
          const Tensor weight = affine ? normal({shape.back()}, 2, dtype) : Tensor();
          const Tensor bias = affine ? with_gaps(normal({shape.back()}, 3, dtype), 0) : Tensor();
          const Reference wanted(x, weight, bias);
          const LayerNormForward result = layer_norm(x, weight, bias, kEps);
          EXPECT_EQ(result.mean.dtype(), dtype == DType::float64 ? DType::float64 : DType::float32);
          EXPECT_EQ(result.mean.rank(), x.rank() - 1);
          EXPECT_TRUE(result.output.is_contiguous());
          const double statistics = std::min(5e-6, tolerance(dtype));
          expect_near(result.mean, wanted.mean, statistics, "mean " + describe(x));
          expect_near(result.inv_std, wanted.inv_std, statistics, "inv_std " + describe(x));
          expect_near(result.output, wanted.output, tolerance(dtype), describe(x));
        }
}

TEST(LayerNorm, IsSoundForMeansFarFromZero) {
  const Tensor x = normal({4, 600}, 1, DType::float32, 1000);
  expect_near(layer_norm(x, {}, {}, kEps).output, Reference(x, {}, {}).output, 3e-4, "mean 1000");
}

// An ulp of the mean is all that a deviation consists of here, and 1 / sqrt(eps) would magnify it.
TEST(LayerNorm, OfConstantRowsIsTheBias) {
  for (const DType dtype : kFloating)
    for (const std::int64_t n : {1, 2, 7, 11, 13, 255, 256, 257, 384, 768, 1000})
      for (const double value : {100.0676, -0.6631, 0.1, 3.3, 0.0, 1e-30, -7e4, 1e35}) {
        const Tensor x = Tensor::full({3, n}, value, {.dtype = dtype}), bias = normal({n}, 3, dtype);
        const LayerNormForward result = layer_norm(x, {}, bias, kEps);
        EXPECT_EQ(result.mean.to_vector<double>(), std::vector<double>(3, x.to_vector<double>()[0])) << describe(x);
        const std::vector<double> b = bias.to_vector<double>(), y = result.output.to_vector<double>();
        for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], b[i % b.size()]) << describe(x) << " of " << value;
      }
}

// PyTorch gives the bias here, too.
TEST(LayerNorm, OfValuesWhoseSquaresOverflowIsTheBias) {
  const Tensor x = Tensor::from<float>({1e30F, 0, 0, 0});
  const LayerNormForward result = layer_norm(x, {}, {}, kEps);
  EXPECT_EQ(result.output.to_vector<float>(), std::vector<float>(4, 0));
  EXPECT_FLOAT_EQ(result.mean.to_vector<float>()[0], 2.5e29F);
  expect_near(layer_norm(x.to(DType::float64), {}, {}, kEps).output, Reference(x, {}, {}).output, 1e-12, "float64");
}

TEST(LayerNorm, BackwardMatchesTheFormulas) {
  for (const DType dtype : kFloating)
    for (const Shape& shape : kShapes)
      for (const Tensor& x : layouts(normal(shape, 1, dtype)))
        for (const bool affine : {false, true}) {
          const Tensor weight = affine ? normal({shape.back()}, 2, dtype) : Tensor(), dy = normal(shape, 5, dtype);
          const std::size_t n = at(shape.back());
          const Reference f(x, weight, {});
          const auto w = vector_or(weight, shape.back(), 1), g = dy.to_vector<double>();
          std::vector<double> dx(g.size()), dweight(n, 10), dbias(n, 20);
          double largest = 1;
          for (std::size_t row = 0; row < f.mean.size(); ++row) {
            double of_g = 0, of_gh = 0;
            for (std::size_t i = 0; i < n; ++i) {
              const std::size_t k = row * n + i;
              of_g += g[k] * w[i] / static_cast<double>(n);
              of_gh += g[k] * w[i] * f.h[k] / static_cast<double>(n);
              dweight[i] += g[k] * f.h[k];
              dbias[i] += g[k];
            }
            for (std::size_t i = 0; i < n; ++i)
              dx[row * n + i] = f.inv_std[row] * (g[row * n + i] * w[i] - of_g - f.h[row * n + i] * of_gh);
            largest = std::max(largest, f.inv_std[row]);  // what roundings are multiplied by
          }
          const LayerNormForward forward = layer_norm(x, weight, {}, kEps);
          Tensor to_weight = Tensor::full({2 * shape.back()}, 10, {.dtype = dtype}).slice(0, 0, 2 * shape.back(), 2);
          Tensor to_bias = Tensor::full({shape.back()}, 20, {.dtype = DType::float32});
          const Tensor got =
              layer_norm_backward(dy, x, weight, forward.mean, forward.inv_std, to_weight, to_bias, true);
          expect_near(got, dx, largest * tolerance(dtype), "dx " + describe(x));
          expect_near(to_weight, dweight, std::max(1., largest / 10) * 2 * tolerance(dtype), "dweight " + describe(x));
          expect_near(to_bias, dbias, std::max(1e-6, 2 * tolerance(dtype)), "dbias " + describe(x));
          Tensor none;
          layer_norm_backward(dy, x, weight, forward.mean, forward.inv_std, none, to_bias, false);
          for (double& value : dbias) value -= 20;
          expect_near(to_bias, dbias, std::max(1e-5, 2 * tolerance(dtype)), "dbias alone, overwritten");
        }
}

TEST(LayerNorm, BackwardReusesMemoryThatNobodyElseSees) {
  const Tensor x = normal({6, 9}, 1, DType::float32);
  const LayerNormForward f = layer_norm(x, {}, {}, kEps);
  Tensor dy = normal({6, 9}, 2, DType::float32), none;
  const void* memory = testing::address_of(dy);
  const Tensor shared = layer_norm_backward(dy, x, {}, f.mean, f.inv_std, none, none, false);
  EXPECT_NE(testing::address_of(shared), memory);
  const Tensor reused = layer_norm_backward(std::move(dy), x, {}, f.mean, f.inv_std, none, none, false);
  EXPECT_EQ(testing::address_of(reused), memory);
  EXPECT_EQ(reused.to_vector<float>(), shared.to_vector<float>());
}

TEST(LayerNorm, SameBitsForAnyNumberOfThreads) {
  const Tensor x = normal({2000, 77}, 1, DType::float32), dy = normal({2000, 77}, 2, DType::float32),
               weight = normal({77}, 3, DType::float32);
  const auto results = [&] {
    const LayerNormForward f = layer_norm(x, weight, weight, kEps);
    Tensor dweight = weight.clone(), dbias = weight.clone();
    const Tensor dx = layer_norm_backward(dy, x, weight, f.mean, f.inv_std, dweight, dbias, false);
    std::vector<std::vector<float>> all;
    for (const Tensor& t : {f.output, f.mean, f.inv_std, dx, dweight, dbias}) all.push_back(t.to_vector<float>());
    return all;
  };
  EXPECT_EQ(with_threads(3, results), with_threads(1, results));
}

TEST(LayerNorm, Empty) {
  for (const DType dtype : kFloating)
    for (const Shape& shape : {Shape{0, 3}, Shape{2, 0, 3}, Shape{0, 1}, Shape{4, 0}, Shape{0}})
      for (const Tensor& x : layouts(Tensor::zeros(shape, {.dtype = dtype}))) {
        const LayerNormForward f = layer_norm(x, {}, {}, kEps);
        Tensor dweight = Tensor::full({shape.back()}, 1, {.dtype = dtype}), dbias = dweight.clone();
        EXPECT_EQ(f.output.shape(), shape);
        EXPECT_EQ(layer_norm_backward(x, x, {}, f.mean, f.inv_std, dweight, dbias, true).shape(), shape);
        EXPECT_EQ(dweight.to_vector<float>(), std::vector<float>(at(shape.back()), 1));
        layer_norm_backward(x, x, {}, f.mean, f.inv_std, dweight, dbias, false);
        EXPECT_EQ(dweight.to_vector<float>(), std::vector<float>(at(shape.back()), 0));
      }
}

TEST(LayerNorm, ErrorsNameTheRule) {
  const Tensor x = Tensor::zeros({4, 3}), two = Tensor::zeros({2}), four = Tensor::zeros({4});
  Tensor none, bad = two;
  TANDEM_EXPECT_ERROR(layer_norm(Tensor::scalar(1), {}, {}, kEps), "layer_norm: x needs to be [..., D], got []");
  TANDEM_EXPECT_ERROR(layer_norm(x.to(DType::int64), {}, {}, kEps), "layer_norm: x needs a floating dtype, got int64");
  TANDEM_EXPECT_ERROR(layer_norm(x, two, {}, kEps), "layer_norm: weight float32 [2] does not fit the rows of x [4, 3]");
  TANDEM_EXPECT_ERROR(layer_norm(x, {}, two, kEps), "layer_norm: bias float32 [2] does not fit");
  TANDEM_EXPECT_ERROR(layer_norm_backward(Tensor::zeros({3, 4}), x, {}, four, four, none, none, false),
                      "layer_norm_backward: gradient float32 [3, 4] does not match x float32 [4, 3]");
  TANDEM_EXPECT_ERROR(layer_norm_backward(x, x, {}, four, four, bad, none, false), "dweight float32 [2]");
  TANDEM_EXPECT_ERROR(layer_norm_backward(x, x, {}, two, four, none, none, false),
                      "layer_norm_backward: mean float32 [2] is not what forward gave for x [4, 3]");
  TANDEM_EXPECT_ERROR(layer_norm_backward(x, x, {}, four, none, none, none, false),
                      "inv_std float32 [] is not what forward gave");
}

}  // namespace
}  // namespace tandem::core
