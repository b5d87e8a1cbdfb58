#include "tandem/core/ops/batch_norm.h"

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

std::vector<double> one_per_channel(const Tensor& vector, std::int64_t channels, double otherwise) {
  return vector.defined() ? vector.to_vector<double>()
                          : std::vector<double>(static_cast<std::size_t>(channels), otherwise);
}

// Calls f(i, c) for each element i in logical order, of channel c.
template <class F>
void for_each(const Shape& shape, F&& f) {
  std::int64_t inner = 1;
  for (int d = 2; d < shape.rank(); ++d) inner *= shape[d];
  for (std::int64_t i = 0; i < numel(shape); ++i)
    f(static_cast<std::size_t>(i), static_cast<std::size_t>(i / inner % shape[1]));
}

struct Statistics {
  std::vector<double> mean, variance;
};

Statistics statistics(const Tensor& x) {
  const auto v = x.to_vector<double>();
  const auto channels = static_cast<std::size_t>(x.shape()[1]);
  const double count = static_cast<double>(x.numel()) / static_cast<double>(channels);
  Statistics s{std::vector<double>(channels), std::vector<double>(channels)};
  for_each(x.shape(), [&](std::size_t i, std::size_t c) { s.mean[c] += v[i] / count; });
  for_each(x.shape(),
           [&](std::size_t i, std::size_t c) { s.variance[c] += (v[i] - s.mean[c]) * (v[i] - s.mean[c]) / count; });
  return s;
}

std::vector<double> normalized(const Tensor& x, const Tensor& weight, const Tensor& bias, const Statistics& s) {
  auto y = x.to_vector<double>();
  const auto w = one_per_channel(weight, x.shape()[1], 1), b = one_per_channel(bias, x.shape()[1], 0);
  for_each(x.shape(), [&](std::size_t i, std::size_t c) {
    y[i] = (y[i] - s.mean[c]) / std::sqrt(s.variance[c] + kEps) * w[c] + b[c];
  });
  return y;
}

const std::vector<Shape> kShapes{{2, 1},         {8, 10},        {300, 3},     {5, 300},
                                 {2, 3, 1, 1},   {1, 1, 3, 3},   {2, 5, 3, 4}, {3, 270, 2, 2},
                                 {2, 3, 20, 33}, {300, 2, 1, 2}, {1, 2, 1, 2}, {3, 4, 5, 1}};

std::vector<Tensor> layouts(const Tensor& x) { return testing::layouts(x, 1, 1); }

double tolerance(DType dtype) { return dtype == DType::float64 ? 1e-12 : dtype == DType::float32 ? 5e-6 : 1.0 / 100; }

// An ulp of the mean is all that a deviation consists of here, and 1 / sqrt(eps) would magnify it.
TEST(BatchNorm, OfConstantChannelsIsTheBias) {
  for (const DType dtype : kFloating)
    for (const Shape& shape : kShapes)
      for (const double value : {100.0676, -0.6631, 0.1, 1e-30, -7e4, 3e38})
        for (const Tensor& x : layouts(Tensor::full(shape, value, {.dtype = dtype}))) {
          const std::string what = describe(x) + " of " + std::to_string(value);
          const Tensor bias = normal({shape[1]}, 3, dtype);
          const BatchNormForward result = batch_norm_training(x, {}, bias, kEps);
          const std::vector<double> b = bias.to_vector<double>(), y = result.output.to_vector<double>();
          EXPECT_EQ(result.mean.to_vector<double>(), std::vector<double>(b.size(), x.to_vector<double>()[0])) << what;
          EXPECT_EQ(result.variance.to_vector<double>(), std::vector<double>(b.size(), 0)) << what;
          for_each(shape, [&](std::size_t i, std::size_t c) { ASSERT_EQ(y[i], b[c]) << what; });
          const Tensor later = batch_norm_inference(x, {}, bias, result.mean, result.variance, kEps);
          EXPECT_EQ(later.to_vector<double>(), y) << what;
        }
}

TEST(BatchNorm, TrainingAndInferenceMatchTheDefinition) {
  for (const DType dtype : kFloating)
    for (const Shape& shape : kShapes)
      for (const Tensor& x : layouts(normal(shape, 1, dtype)))
        for (const bool affine : {false, true}) {
          const std::string what = describe(x);
          const Tensor weight = affine ? normal({shape[1]}, 2, dtype) : Tensor();
          const Tensor bias = affine ? normal({shape[1]}, 3, dtype) : Tensor();
          const Statistics s = statistics(x);
          const BatchNormForward result = batch_norm_training(x, weight, bias, kEps);
          EXPECT_EQ(result.mean.dtype(), dtype == DType::float64 ? DType::float64 : DType::float32);
          expect_near(result.mean, s.mean, std::min(5e-6, tolerance(dtype)), "mean " + what);
          expect_near(result.variance, s.variance, std::min(5e-6, tolerance(dtype)), "variance " + what);
          std::vector<double> inv_std = s.variance;
          for (double& v : inv_std) v = 1 / std::sqrt(v + kEps);
          expect_near(result.inv_std, inv_std, std::min(2e-5, tolerance(dtype)), "inv_std " + what);
          expect_near(result.output, normalized(x, weight, bias, s), tolerance(dtype), what);
          EXPECT_TRUE(!x.is_channels_last() || result.output.is_channels_last());

          const Tensor mean = normal({shape[1]}, 4, dtype), variance = Tensor::full({shape[1]}, 2.25, {.dtype = dtype});
          const Tensor y = batch_norm_inference(x, weight, bias, mean, variance, kEps);
          expect_near(y, normalized(x, weight, bias, {mean.to_vector<double>(), variance.to_vector<double>()}),
                      tolerance(dtype), what);
        }
}

TEST(BatchNorm, BackwardMatchesFiniteDifferences) {
  for (const Shape& shape : {Shape{5, 3}, Shape{3, 1}, Shape{2, 3, 2, 2}})
    for (const Tensor& x : layouts(normal(shape, 1)))
      for (const bool training : {true, false}) {
        const Tensor weight = normal({shape[1]}, 2), bias = normal({shape[1]}, 3), dy = normal(shape, 5);
        const Tensor mean = normal({shape[1]}, 4), variance = Tensor::full({shape[1]}, 2.25, {.dtype = DType::float64});
        const auto loss = [&](const Tensor& x_, const Tensor& weight_, const Tensor& bias_) {
          const auto y = normalized(
              x_, weight_, bias_,
              training ? statistics(x_) : Statistics{mean.to_vector<double>(), variance.to_vector<double>()});
          const auto g = dy.to_vector<double>();
          double sum = 0;
          for (std::size_t i = 0; i < y.size(); ++i) sum += g[i] * y[i];
          return sum;
        };
        const auto expect_slope = [&](const Tensor& gradient, const Tensor& at, auto&& f) {
          for (std::int64_t i = 0; i < at.numel(); ++i) {
            Tensor up = at.clone().contiguous().clone(), down = up.clone();
            testing::add_to_element(up, i, 1e-5);
            testing::add_to_element(down, i, -1e-5);
            ASSERT_NEAR(gradient.to_vector<double>()[static_cast<std::size_t>(i)], (f(up) - f(down)) / 2e-5, 2e-8);
          }
        };
        Tensor dweight = Tensor::empty({shape[1]}, {.dtype = DType::float64}), dbias = dweight.clone();
        const BatchNormForward forward = batch_norm_training(x, weight, bias, kEps);
        const Tensor dx =
            training ? batch_norm_backward(dy, x, weight, forward.mean, forward.inv_std, dweight, dbias, false)
                     : batch_norm_inference_backward(dy, x, weight, mean, variance, kEps, dweight, dbias, false);
        expect_slope(dx, x, [&](const Tensor& t) { return loss(t, weight, bias); });
        expect_slope(dweight, weight, [&](const Tensor& t) { return loss(x, t, bias); });
        expect_slope(dbias, bias, [&](const Tensor& t) { return loss(x, weight, t); });
      }
}

TEST(BatchNorm, BackwardOfEveryTypeAndLayoutMatchesFloat64) {
  for (const DType dtype : kFloating)
    for (const Shape& shape : kShapes)
      for (const Tensor& x : layouts(normal(shape, 1, dtype)))
        for (const Tensor& dy : layouts(normal(shape, 5, dtype)))
          for (const bool affine : {false, true}) {
            const Tensor weight = affine ? normal({shape[1]}, 2, dtype) : Tensor();
            const Tensor mean = normal({shape[1]}, 6),
                         inv_std = Tensor::full({shape[1]}, 0.7, {.dtype = DType::float64});
            // The formula in float64.
            const auto g = dy.to_vector<double>(), v = x.to_vector<double>(), m = mean.to_vector<double>();
            const auto w = one_per_channel(weight, shape[1], 1);
            const double count = static_cast<double>(x.numel() / shape[1]);
            std::vector<double> dbias(w.size()), dweight(w.size()), dx(g.size());
            for_each(shape, [&](std::size_t i, std::size_t c) {
              dbias[c] += g[i];
              dweight[c] += g[i] * (v[i] - m[c]) * 0.7;
            });
            for_each(shape, [&](std::size_t i, std::size_t c) {
              dx[i] = w[c] * 0.7 * (g[i] - dbias[c] / count - (v[i] - m[c]) * 0.7 * dweight[c] / count);
            });
            Tensor got_dweight = Tensor::empty({shape[1]}, {.dtype = dtype}),
                   got_dbias = Tensor::empty({shape[1]}, {.dtype = dtype});
            const Tensor got = batch_norm_backward(dy, x, weight, mean, inv_std, got_dweight, got_dbias, false);
            const std::string what =
                fmt::format("{} {} strides {} {}", name(dtype), shape.str(), x.strides().str(), dy.strides().str());
            const double scale = dtype == DType::bfloat16 ? 1 : 20;
            expect_near(got, dx, scale * tolerance(dtype), "dx " + what);
            expect_near(got_dweight, dweight, scale * tolerance(dtype), "dweight " + what);
            expect_near(got_dbias, dbias, scale * tolerance(dtype), "dbias " + what);
          }
}

TEST(BatchNorm, ParameterGradientsAccumulateIntoStridedMemoryOrAreSkipped) {
  const Tensor x = normal({6, 3}, 1, DType::float32), dy = normal({6, 3}, 2, DType::float32);
  const BatchNormForward f = batch_norm_training(x, {}, {}, kEps);
  Tensor none, dweight = Tensor::zeros({3}), dbias = Tensor::zeros({3});
  batch_norm_backward(dy, x, {}, f.mean, f.inv_std, dweight, dbias, false);
  for (const DType dtype : kFloating) {
    Tensor memory = Tensor::full({3, 2}, 10, {.dtype = dtype});
    Tensor column = memory.select(1, 1);
    batch_norm_backward(dy, x, {}, f.mean, f.inv_std, column, none, true);
    const auto added = memory.to_vector<double>(), sums = dweight.to_vector<double>();
    for (std::size_t c = 0; c < 3; ++c) {
      EXPECT_EQ(added[2 * c], 10);
      EXPECT_NEAR(added[2 * c + 1], 10 + sums[c], dtype == DType::bfloat16 ? 0.05 : 1e-5);
    }
  }
  EXPECT_FALSE(none.defined());
}

TEST(BatchNorm, VarianceIsSoundFarFromZero) {
  for (const Shape& shape : {Shape{100000, 2}, Shape{4, 2, 160, 160}})
    for (const Tensor& x : layouts(normal(shape, 1, DType::float32, 3000))) {
      const Statistics s = statistics(x);
      const BatchNormForward f = batch_norm_training(x, {}, {}, kEps);
      expect_near(f.variance, s.variance, 1e-5, "variance of " + shape.str());
      expect_near(f.mean, s.mean, 1e-7, "mean of " + shape.str());
    }
  // The value that deviations are taken from is an outlier.
  Tensor x = normal({128, 1}, 1, DType::float32);
  testing::set_element(x, 0, 1e6f);
  const Statistics s = statistics(x);
  expect_near(batch_norm_training(x.expand({128, 2}), {}, {}, kEps).variance, {s.variance[0], s.variance[0]}, 1e-4,
              "outlier");
}

TEST(BatchNorm, ConstantChannelHasVarianceZero) {
  const BatchNormForward f = batch_norm_training(Tensor::full({500, 2}, 0.1), {}, {}, kEps);
  EXPECT_EQ(f.variance.to_vector<float>(), (std::vector<float>{0, 0}));
  EXPECT_EQ(f.output.to_vector<float>()[7], 0);
}

TEST(BatchNorm, SameBitsForAnyNumberOfThreads) {
  for (const Tensor& x : layouts(normal({9, 70, 21, 17}, 1, DType::float32))) {
    const auto results = [&] {
      const BatchNormForward f = batch_norm_training(x, {}, {}, kEps);
      Tensor dweight = Tensor::zeros({70}), dbias = Tensor::zeros({70});
      const Tensor dx = batch_norm_backward(x, x, {}, f.mean, f.inv_std, dweight, dbias, false);
      std::vector<std::vector<float>> all;
      for (const Tensor& t : {f.output, f.mean, f.variance, dx, dweight, dbias}) all.push_back(t.to_vector<float>());
      return all;
    };
    const auto one = with_threads(1, results), three = with_threads(3, results);
    for (std::size_t i = 0; i < one.size(); ++i) EXPECT_EQ(three[i], one[i]) << i;
  }
}

TEST(BatchNorm, EmptyInInference) {
  for (const DType dtype : kFloating)
    for (const Shape& shape : {Shape{0, 3}, Shape{0, 3, 1, 1}, Shape{0, 3, 4, 4}, Shape{2, 3, 0, 4}})
      for (const Tensor& x : layouts(Tensor::zeros(shape, {.dtype = dtype}))) {
        const Tensor one = Tensor::full({3}, 1, {.dtype = dtype});
        EXPECT_EQ(batch_norm_inference(x, {}, {}, one, one, kEps).shape(), shape);
        Tensor dweight = one.clone(), dbias = one.clone();
        EXPECT_EQ(batch_norm_inference_backward(x, x, {}, one, one, kEps, dweight, dbias, false).shape(), shape);
        EXPECT_EQ(dweight.to_vector<float>(), std::vector<float>(3, 0));
      }
}

// The formula, not an error: a rank of several may have one row, or none, while others have more.
TEST(BatchNorm, OneValueIsItsOwnMeanAndNoneAreNothing) {
  const Tensor weight = Tensor::from(std::vector<float>{2, 3, 4}), bias = Tensor::from(std::vector<float>{5, 6, 7});
  for (const bool relu : {false, true})
    for (const Shape& shape : {Shape{1, 3}, Shape{1, 3, 1, 1}, Shape{0, 3}, Shape{0, 3, 4, 4}, Shape{2, 3, 0, 4}}) {
      SCOPED_TRACE(shape.str());
      const Tensor x = Tensor::full(shape, 100.068), dy = Tensor::full(shape, 9);
      const bool is_empty = x.numel() == 0;
      const BatchNormForward f = batch_norm_training(x, weight, bias, kEps, {.relu = relu});
      EXPECT_EQ(f.output.shape(), shape);
      EXPECT_EQ(f.mean.to_vector<float>(), std::vector<float>(3, is_empty ? 0 : 100.068F));
      EXPECT_EQ(f.variance.to_vector<float>(), std::vector<float>(3, is_empty ? 1 : 0));
      if (!is_empty) {
        EXPECT_EQ(f.output.to_vector<float>(), bias.to_vector<float>());
      }
      Tensor dweight = Tensor::full({3}, 1), dbias = Tensor::full({3}, 1);
      const Tensor dx =
          batch_norm_backward(dy, x, weight, f.mean, f.inv_std, dweight, dbias, true, {.relu = relu, .bias = bias});
      EXPECT_EQ(dx.to_vector<float>(), std::vector<float>(static_cast<std::size_t>(x.numel()), 0));
      EXPECT_EQ(dweight.to_vector<float>(), std::vector<float>(3, 1));
      EXPECT_EQ(dbias.to_vector<float>(), std::vector<float>(3, is_empty ? 1 : 10));
    }
}

TEST(BatchNorm, ErrorsNameTheRule) {
  const Tensor x = Tensor::zeros({4, 3}), three = Tensor::zeros({3}), two = Tensor::zeros({2});
  Tensor none, bad = two;
  TANDEM_EXPECT_ERROR(batch_norm_training(Tensor::zeros({4, 3, 2}), {}, {}, kEps), "[N, C, H, W], got [4, 3, 2]");
  TANDEM_EXPECT_ERROR(batch_norm_training(x.to(DType::int64), {}, {}, kEps), "floating dtype, got int64");
  TANDEM_EXPECT_ERROR(batch_norm_training(x, two, {}, kEps),
                      "batch_norm: weight float32 [2] does not fit the channels of x [4, 3]");
  TANDEM_EXPECT_ERROR(batch_norm_inference(x, {}, {}, {}, three, kEps),
                      "batch_norm_inference: running_mean is undefined");
  TANDEM_EXPECT_ERROR(batch_norm_backward(Tensor::zeros({3, 4}), x, {}, three, three, none, none, false),
                      "[3, 4] does not match x");
  TANDEM_EXPECT_ERROR(batch_norm_backward(x, x, {}, three, three, bad, none, false), "dweight float32 [2]");
}

}  // namespace
}  // namespace tandem::core
