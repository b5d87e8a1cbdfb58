#include "tandem/core/ops/softmax.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tandem/core/ops/cpu/softmax.h"
#include "tests/core/awkward.h"
#include "tests/elements.h"

namespace tandem::core {
namespace {

using namespace testing;

// Rows along `dim` of values in logical order: index(o, d, i).
struct Rows {
  std::int64_t outer = 1, size = 1, inner = 1;
  Rows(const Shape& shape, int dim) {
    for (int d = 0; d < shape.rank(); ++d) (d < dim ? outer : d == dim ? size : inner) *= shape[d];
  }
  std::size_t at(std::int64_t o, std::int64_t d, std::int64_t i) const {
    return static_cast<std::size_t>((o * size + d) * inner + i);
  }
};

std::vector<double> reference(const Tensor& x, int dim, bool log) {
  std::vector<double> y = x.to_vector<double>();
  const Rows rows(x.shape(), dim);
  for (std::int64_t o = 0; o < rows.outer; ++o)
    for (std::int64_t i = 0; i < rows.inner; ++i) {
      double max = -kInfinity, sum = 0;
      for (std::int64_t d = 0; d < rows.size; ++d) max = std::max(max, y[rows.at(o, d, i)]);
      for (std::int64_t d = 0; d < rows.size; ++d) sum += std::exp(y[rows.at(o, d, i)] - max);
      for (std::int64_t d = 0; d < rows.size; ++d) {
        double& value = y[rows.at(o, d, i)];
        value = log ? value - max - std::log(sum) : std::exp(value - max) / sum;
      }
    }
  return y;
}

std::vector<double> reference_backward(const Tensor& dy, const Tensor& y, int dim, bool log) {
  const std::vector<double> g = dy.to_vector<double>(), v = y.to_vector<double>();
  std::vector<double> dx(g.size());
  const Rows rows(y.shape(), dim);
  for (std::int64_t o = 0; o < rows.outer; ++o)
    for (std::int64_t i = 0; i < rows.inner; ++i) {
      double sum = 0;
      for (std::int64_t d = 0; d < rows.size; ++d) sum += g[rows.at(o, d, i)] * (log ? 1 : v[rows.at(o, d, i)]);
      for (std::int64_t d = 0; d < rows.size; ++d) {
        const std::size_t k = rows.at(o, d, i);
        dx[k] = log ? g[k] - std::exp(v[k]) * sum : v[k] * (g[k] - sum);
      }
    }
  return dx;
}

double tolerance(DType dtype) { return dtype == DType::float64 ? 1e-13 : dtype == DType::float32 ? 3e-6 : 1.0 / 128; }

// x itself and views of the same values, or of the same shape, with other strides.
std::vector<Tensor> layouts(const Tensor& x) {
  std::vector<Tensor> all = testing::layouts(x, -1, -1);
  if (x.numel() > 0 && x.rank() > 0) all.push_back(x.slice(0, 0, 1).expand(x.shape()));
  return all;
}

const std::vector<Shape> kShapes{{},        {1},       {7},         {0, 3},      {3, 0},        {5, 1},       {1, 5},
                                 {3, 4, 5}, {4, 1000}, {2, 300, 3}, {2, 3, 130}, {2, 70, 3, 4}, {3, 1, 2, 2}, {2, 65}};

TEST(Softmax, MatchesReferenceForEveryLayoutAndDimension) {
  for (const DType dtype : kFloating)
    for (const Shape& shape : kShapes)
      for (const Tensor& x : layouts(normal(shape, 1, dtype, 0, 3)))
        for (int dim = 0; dim < std::max(1, x.rank()); ++dim) {
          const std::string what =
              fmt::format("{} {} strides {} dim {}", name(dtype), shape.str(), x.strides().str(), dim);
          const Tensor y = softmax(x, dim), z = log_softmax(x, dim - std::max(1, x.rank()));
          EXPECT_EQ(y.strides(), Tensor::empty_like(x).strides());
          expect_near(y, reference(x, dim, false), tolerance(dtype), "softmax " + what);
          expect_near(z, reference(x, dim, true), tolerance(dtype), "log_softmax " + what);
        }
}

TEST(Softmax, BackwardMatchesReferenceForEveryLayoutAndDimension) {
  for (const DType dtype : kFloating)
    for (const Shape& shape : kShapes)
      for (const Tensor& x : layouts(normal(shape, 1, dtype, 0, 2)))
        for (const Tensor& dy : layouts(normal(shape, 2, dtype)))
          for (int dim = 0; dim < std::max(1, x.rank()); ++dim) {
            const std::string what = fmt::format("{} {} strides {} {} dim {}", name(dtype), shape.str(),
                                                 x.strides().str(), dy.strides().str(), dim);
            const Tensor y = softmax(x, dim), z = log_softmax(x, dim);
            const double scale = dtype == DType::float64 ? 100 : 10;  // sums of many terms, relative to their result
            expect_near(softmax_backward(dy, y, dim), reference_backward(dy, y, dim, false), scale * tolerance(dtype),
                        what);
            expect_near(log_softmax_backward(dy, z, dim), reference_backward(dy, z, dim, true),
                        scale * tolerance(dtype), what);
          }
}

TEST(Softmax, BackwardMatchesFiniteDifferences) {
  const Tensor x = normal({3, 4}, 1), weights = normal({3, 4}, 2);
  const auto w = weights.to_vector<double>();
  for (const bool log : {false, true}) {
    const auto loss = [&](const Tensor& input) {
      const auto y = (log ? log_softmax(input, 1) : softmax(input, 1)).to_vector<double>();
      double sum = 0;
      for (std::size_t i = 0; i < y.size(); ++i) sum += w[i] * y[i];
      return sum;
    };
    const auto dx =
        (log ? log_softmax_backward(weights, log_softmax(x, 1), 1) : softmax_backward(weights, softmax(x, 1), 1))
            .to_vector<double>();
    for (int i = 0; i < 12; ++i) {
      Tensor up = x.clone(), down = x.clone();
      testing::add_to_element(up, i, 1e-5);
      testing::add_to_element(down, i, -1e-5);
      EXPECT_NEAR(dx[static_cast<std::size_t>(i)], (loss(up) - loss(down)) / 2e-5, 1e-8);
    }
  }
}

TEST(Softmax, StaysFiniteForLargeValues) {
  for (const DType dtype : kFloating)
    for (const double offset : {1e4, -1e4, 1e30, -1e30}) {
      const Tensor x = Tensor::from<double>({offset, offset, -kInfinity}).to(dtype);
      EXPECT_EQ(softmax(x, 0).to_vector<double>(), (std::vector<double>{0.5, 0.5, 0}));
      EXPECT_EQ(log_softmax(x, 0).to_vector<double>()[2], -kInfinity);
      EXPECT_NEAR(log_softmax(x, 0).to_vector<double>()[0], -std::log(2.), 2e-3);
    }
}

TEST(Softmax, StaysFiniteAlongAnyDimension) {
  for (const DType dtype : kFloating)
    for (const double large : {1e4, -1e4}) {
      const Tensor column = Tensor::from<double>({0, large, -kInfinity, large}, {4, 1}).to(dtype);
      const Tensor x = column.expand({4, 70}).contiguous();
      const double p = large > 0 ? 0.5 : 0;
      const auto y = softmax(x, 0).to_vector<double>();
      for (std::size_t i = 0; i < 70; ++i) {
        EXPECT_EQ(y[i], 1 - 2 * p);
        EXPECT_EQ(y[70 + i], p);
        EXPECT_EQ(y[140 + i], 0);
        EXPECT_EQ(y[210 + i], p);
      }
    }
}

TEST(Softmax, RowsWithoutAFiniteMaximumAreNan) {
  for (const Tensor& row :
       {Tensor::from<float>({-INFINITY, -INFINITY}), Tensor::from<float>({1, INFINITY}), Tensor::from<float>({1, NAN})})
    for (const Tensor& y : {softmax(row, 0), log_softmax(row, 0), softmax(row.expand({40, 2}).contiguous(), 1),
                            softmax(row.expand({40, 2}).transpose(0, 1).contiguous(), 0)})
      for (const float value : y.to_vector<float>()) EXPECT_TRUE(std::isnan(value)) << row.str() << y.str();
}

TEST(Softmax, ExponentialIsExact) {
  for (double x = 0; x > -86; x -= 0.0137) {
    EXPECT_NEAR(cpu::exp_nonpositive(static_cast<float>(x)) / std::exp(static_cast<double>(static_cast<float>(x))), 1,
                2.5e-7)
        << x;
    EXPECT_NEAR(cpu::exp_nonpositive(x) / std::exp(x), 1, 5e-16) << x;
  }
  EXPECT_EQ(cpu::exp_nonpositive(-INFINITY), 0);
  EXPECT_EQ(cpu::exp_nonpositive(-kInfinity), 0);
  EXPECT_EQ(cpu::exp_nonpositive(0.f), 1);
  EXPECT_TRUE(std::isnan(cpu::exp_nonpositive(NAN)));
  EXPECT_NEAR(cpu::exp_nonpositive(-700.) / std::exp(-700.), 1, 1e-15);
}

TEST(Softmax, SameBitsForAnyNumberOfThreads) {
  const Tensor x = normal({130, 7, 90}, 3, DType::float32);
  for (int dim = 0; dim < 3; ++dim) {
    const auto result = [&] { return softmax(x, dim).to_vector<float>(); };
    EXPECT_EQ(with_threads(3, result), with_threads(1, result));
  }
}

TEST(Softmax, ErrorsNameTheRule) {
  const Tensor x = Tensor::zeros({2, 3});
  TANDEM_EXPECT_ERROR(softmax(x, 2), "softmax");
  TANDEM_EXPECT_ERROR(softmax(Tensor::arange(3), 0), "softmax: needs a floating dtype, got int64");
  TANDEM_EXPECT_ERROR(softmax_backward(Tensor::zeros({3, 2}), x, 0),
                      "float32 [3, 2] does not match result float32 [2, 3]");
  TANDEM_EXPECT_ERROR(log_softmax_backward(x.to(DType::float64), x, 0), "float64 [2, 3] does not match");
}

}  // namespace
}  // namespace tandem::core
