// Batch norm with what follows it in the same pass: y = relu(batch_norm(x) + residual), and its gradients.
#include <gtest/gtest.h>

#include <cmath>

#include "tandem/core/ops/batch_norm.h"
#include "tests/core/awkward.h"
#include "tests/elements.h"

namespace tandem::core {
namespace {

using namespace testing;
using tandem::testing::error_of;

constexpr double kEps = 1e-5;

// One channel, one pixel, rows that do not fill a tile, more channels than a block, and tiles for two threads.
const std::vector<Shape> kShapes{{2, 1},       {9, 10},       {300, 3},       {5, 300},
                                 {2, 3, 1, 1}, {2, 5, 3, 4},  {3, 270, 2, 2}, {2, 3, 20, 33},
                                 {1, 2, 1, 2}, {7, 65, 9, 9}, {1, 1, 3, 3},   {3, 4, 5, 1}};

double tolerance(DType dtype) { return dtype == DType::float64 ? 1e-11 : dtype == DType::float32 ? 2e-5 : 0.02; }

struct Setting {
  bool relu, residual, training;
};
constexpr Setting kSettings[] = {{true, false, true},  {false, true, true},  {true, true, true},
                                 {true, false, false}, {false, true, false}, {true, true, false}};

std::string name_of(const Setting& s) {
  return fmt::format("{}{}{}", s.training ? "training" : "inference", s.residual ? " add" : "", s.relu ? " relu" : "");
}

// Operands of one call, and of the definition in float64.
struct Problem {
  Setting setting;
  Tensor x, residual, weight, bias, mean, variance, dy;

  Problem(const Tensor& input, const Setting& given) : setting(given), x(input) {
    const DType dtype = x.dtype();
    const Shape& shape = x.shape();
    if (setting.residual) residual = normal(shape, 2, dtype, 0.1);
    weight = normal({shape[1]}, 3, dtype, 1);
    bias = normal({shape[1]}, 4, dtype);
    mean = normal({shape[1]}, 5, dtype);
    variance = Tensor::full({shape[1]}, 2.25, {.dtype = dtype});
    dy = normal(shape, 6, dtype, 0.2);
  }

  std::size_t channel(std::size_t i) const {
    std::int64_t inner = 1;
    for (int d = 2; d < x.rank(); ++d) inner *= x.shape()[d];
    return i / static_cast<std::size_t>(inner) % static_cast<std::size_t>(x.shape()[1]);
  }
};

struct Result {
  Tensor y, dx, dresidual, dweight, dbias;
};

Result compute(const Problem& p, Tensor dy) {
  const BatchNormFusion fusion{.relu = p.setting.relu, .residual = p.residual};
  Result r{.y = {},
           .dx = {},
           .dresidual = {},
           .dweight = Tensor::empty({p.x.shape()[1]}, {.dtype = p.x.dtype()}),
           .dbias = Tensor::empty({p.x.shape()[1]}, {.dtype = p.x.dtype()})};
  BatchNormFusionBackward backward{.relu = p.setting.relu, .bias = p.bias};
  if (p.setting.residual) backward.dresidual = &r.dresidual;
  if (p.setting.training) {
    const BatchNormForward forward = batch_norm_training(p.x, p.weight, p.bias, kEps, fusion);
    r.y = forward.output;
    if (p.setting.residual) backward.output = r.y;
    r.dx = batch_norm_backward(std::move(dy), p.x, p.weight, forward.mean, forward.inv_std, r.dweight, r.dbias, false,
                               backward);
  } else {
    r.y = batch_norm_inference(p.x, p.weight, p.bias, p.mean, p.variance, kEps, fusion);
    if (p.setting.residual) backward.output = r.y;
    r.dx = batch_norm_inference_backward(std::move(dy), p.x, p.weight, p.mean, p.variance, kEps, r.dweight, r.dbias,
                                         false, backward);
  }
  return r;
}

struct Expected {
  std::vector<double> y, dx, dz, dweight, dbias;
};

// The definition. Where y is a hair from 0 the narrow type may see another sign, so the mask is that of `y_seen`.
Expected define(const Problem& p, const Tensor& y_seen) {
  const auto x = p.x.to_vector<double>(), g = p.dy.to_vector<double>(), w = p.weight.to_vector<double>(),
             b = p.bias.to_vector<double>(), seen = y_seen.to_vector<double>();
  const std::size_t channels = w.size(), n = x.size();
  const double count = static_cast<double>(n) / static_cast<double>(channels);
  auto mean = p.mean.to_vector<double>(), variance = p.variance.to_vector<double>();
  if (p.setting.training) {
    mean.assign(channels, 0);
    variance.assign(channels, 0);
    for (std::size_t i = 0; i < n; ++i) mean[p.channel(i)] += x[i] / count;
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t c = p.channel(i);
      variance[c] += (x[i] - mean[c]) * (x[i] - mean[c]) / count;
    }
  }
  const auto inv_std = [&](std::size_t c) { return 1 / std::sqrt(variance[c] + kEps); };
  Expected e{.y = std::vector<double>(n),
             .dx = std::vector<double>(n),
             .dz = g,
             .dweight = std::vector<double>(channels),
             .dbias = std::vector<double>(channels)};
  const auto residual = p.residual.defined() ? p.residual.to_vector<double>() : std::vector<double>(n);
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t c = p.channel(i);
    const double h = (x[i] - mean[c]) * inv_std(c), z = h * w[c] + b[c] + residual[i];
    e.y[i] = p.setting.relu ? std::max(z, 0.) : z;
    if (p.setting.relu && !(seen[i] > 0)) e.dz[i] = 0;
    e.dweight[c] += e.dz[i] * h;
    e.dbias[c] += e.dz[i];
  }
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t c = p.channel(i);
    const double h = (x[i] - mean[c]) * inv_std(c);
    const double through = p.setting.training ? e.dbias[c] / count + h * e.dweight[c] / count : 0;
    e.dx[i] = w[c] * inv_std(c) * (e.dz[i] - through);
  }
  return e;
}

// Sums and, with few values in a channel, dx are as exact as the largest of their terms.
void expect_near_scale(const Tensor& got, const std::vector<double>& wanted, double tolerance,
                       const std::string& what) {
  double scale = 1;
  for (const double value : wanted) scale = std::max(scale, std::abs(value));
  expect_within(got, wanted, what, [&](double) { return tolerance * scale; });
}

void check(const Problem& p, const Tensor& dy, const std::string& what) {
  const Result got = compute(p, dy);
  const Expected wanted = define(p, got.y);
  // With two values in a channel they are +-1 after division by what rounding left of their difference.
  const double unit = tolerance(p.x.dtype());
  expect_near_scale(got.y, wanted.y, unit, "y " + what);
  expect_near_scale(got.dx, wanted.dx, 3 * unit, "dx " + what);
  expect_near_scale(got.dweight, wanted.dweight, unit, "dweight " + what);
  expect_near_scale(got.dbias, wanted.dbias, unit, "dbias " + what);
  ASSERT_EQ(got.dresidual.defined(), p.setting.residual) << what;
  if (p.setting.residual) {
    expect_near_scale(got.dresidual, wanted.dz, 0, "dresidual " + what);
  }
}

TEST(BatchNormFusion, MatchesTheDefinitionInEveryTypeAndLayout) {
  for (const Setting& setting : kSettings)
    for (const DType dtype : kFloating)
      for (const Shape& shape : kShapes)
        for (const Tensor& x : layouts(normal(shape, 1, dtype, 0.5, 1.5), 1, 1)) {
          Problem p(x, setting);
          const std::string what = name_of(setting) + " of " + describe(x);
          check(p, p.dy, what);
          // The other operands lie elsewhere than x does.
          p.dy = exchanged(p.dy, 0, 1);
          if (p.residual.defined()) p.residual = with_gaps(p.residual, 1);
          check(p, p.dy, what + ", operands in other orders");
        }
}

TEST(BatchNormFusion, GradientIsComputedInTheMemoryOfOneThatIsGivenAway) {
  for (const Setting& setting : kSettings)
    for (const bool channels_last : {false, true}) {
      Problem p(normal({4, 5, 6, 7}, 1, DType::float32), setting);
      if (channels_last) p.x = p.x.contiguous(MemoryFormat::channels_last);
      const Result kept = compute(p, p.dy);
      Tensor given = Tensor::empty_like(p.x).copy_from(p.dy);
      const void* memory = testing::address_of(given);
      const Result moved = compute(p, std::move(given));
      EXPECT_EQ(testing::address_of(setting.residual ? moved.dresidual : moved.dx), memory) << name_of(setting);
      EXPECT_EQ(moved.dx.to_vector<float>(), kept.dx.to_vector<float>());
      EXPECT_EQ(moved.dweight.to_vector<float>(), kept.dweight.to_vector<float>());
      if (setting.residual) {
        EXPECT_NE(testing::address_of(moved.dx), memory);
        EXPECT_EQ(moved.dresidual.to_vector<float>(), kept.dresidual.to_vector<float>());
      }
    }
}

TEST(BatchNormFusion, GradientThatOthersHoldStaysAsItIs) {
  for (const Setting& setting : kSettings) {
    const Problem p(normal({4, 5, 6, 7}, 1, DType::float32).contiguous(MemoryFormat::channels_last), setting);
    const Tensor dy = p.dy.contiguous(MemoryFormat::channels_last);
    const auto before = dy.to_vector<float>();
    compute(p, dy);
    EXPECT_EQ(dy.to_vector<float>(), before) << name_of(setting);
  }
}

TEST(BatchNormFusion, ResidualWithoutAWishForItsGradient) {
  Problem p(normal({4, 5, 6, 7}, 1, DType::float64).contiguous(MemoryFormat::channels_last), {true, true, true});
  const Result wanted = compute(p, p.dy);
  const BatchNormForward f = batch_norm_training(p.x, p.weight, p.bias, kEps, {.relu = true, .residual = p.residual});
  Tensor none;
  const Tensor dx = batch_norm_backward(p.dy, p.x, p.weight, f.mean, f.inv_std, none, none, false,
                                        {.relu = true, .output = f.output});
  EXPECT_EQ(dx.to_vector<double>(), wanted.dx.to_vector<double>());
  // Constant statistics, and nobody wants sums.
  const Tensor frozen = batch_norm_inference_backward(p.dy, p.x, p.weight, p.mean, p.variance, kEps, none, none, false,
                                                      {.relu = true, .output = f.output});
  p.setting.training = false;
  expect_near(frozen, define(p, f.output).dx, 1e-12, "frozen");
}

TEST(BatchNormFusion, NanStaysNan) {
  for (const bool channels_last : {false, true})
    for (const DType dtype : kFloating) {
      Tensor x = normal({2, 3, 4, 5}, 1, dtype), residual = normal({2, 3, 4, 5}, 2, dtype);
      if (channels_last) {
        x = x.contiguous(MemoryFormat::channels_last);
        residual = residual.contiguous(MemoryFormat::channels_last);
      }
      x.select(0, 0).select(0, 1).select(0, 2).select(0, 3).fill(kNan);  // channel 1
      residual.select(0, 1).select(0, 2).select(0, 0).select(0, 0).fill(kNan);
      const auto mean = Tensor::zeros({3}), variance = Tensor::full({3}, 1);
      const Tensor y = batch_norm_inference(x, {}, {}, mean, variance, kEps, {.relu = true, .residual = residual});
      const auto values = y.to_vector<double>();
      for (std::size_t i = 0; i < values.size(); ++i)
        EXPECT_EQ(std::isnan(values[i]), i == 33 || i == 100) << i << " " << describe(x);
      // The batch's statistics are NaN for the whole channel.
      const auto trained = batch_norm_training(x, {}, {}, kEps, {.relu = true}).output.to_vector<double>();
      for (std::size_t i = 0; i < trained.size(); ++i)
        EXPECT_EQ(std::isnan(trained[i]), i / 20 % 3 == 1) << i << " " << describe(x);
    }
}

TEST(BatchNormFusion, SameBitsForAnyNumberOfThreads) {
  for (const Setting& setting : kSettings)
    for (const Tensor& x : layouts(normal({9, 70, 21, 17}, 1, DType::float32), 1, 1)) {
      const Problem p(x, setting);
      const auto results = [&] {
        const Result r = compute(p, p.dy);
        std::vector<std::vector<float>> all;
        for (const Tensor& t : {r.y, r.dx, r.dweight, r.dbias}) all.push_back(t.to_vector<float>());
        if (r.dresidual.defined()) all.push_back(r.dresidual.to_vector<float>());
        return all;
      };
      EXPECT_EQ(with_threads(1, results), with_threads(3, results)) << name_of(setting);
    }
}

TEST(BatchNormFusion, EmptyInInference) {
  const Tensor one = Tensor::full({3}, 1), x = Tensor::zeros({2, 3, 0, 4});
  EXPECT_EQ(batch_norm_inference(x, {}, {}, one, one, kEps, {.relu = true, .residual = x}).shape(), x.shape());
  Tensor dweight = one.clone(), none, dresidual;
  batch_norm_inference_backward(x, x, {}, one, one, kEps, dweight, none, false,
                                {.relu = true, .output = x, .dresidual = &dresidual});
  EXPECT_EQ(dresidual.shape(), x.shape());
  EXPECT_EQ(dweight.to_vector<float>(), std::vector<float>(3, 0));
}

TEST(BatchNormFusion, ErrorsNameTheRule) {
  const Tensor x = Tensor::zeros({4, 3}), three = Tensor::zeros({3});
  Tensor none, dresidual;
  EXPECT_EQ(error_of([&] {
              batch_norm_training(x, {}, {}, kEps, {.relu = true, .residual = Tensor::zeros({4, 1})});
            }),
            "batch_norm: residual float32 [4, 1] does not match x float32 [4, 3]");
  EXPECT_EQ(error_of([&] { batch_norm_inference(x, {}, {}, three, three, kEps, {.residual = x.to(DType::float64)}); }),
            "batch_norm_inference: residual float64 [4, 3] does not match x float32 [4, 3]");
  EXPECT_EQ(error_of([&] {
              batch_norm_backward(x, x, {}, three, three, none, none, false, {.relu = true, .dresidual = &dresidual});
            }),
            "batch_norm_backward: the output is needed for the gradient of a residual that was added before ReLU");
  EXPECT_EQ(error_of([&] {
              batch_norm_backward(x, x, {}, three, three, none, none, false,
                                  {.relu = true, .bias = Tensor::zeros({2})});
            }),
            "batch_norm_backward: bias float32 [2] does not fit the channels of x [4, 3]");
  EXPECT_EQ(error_of([&] {
              batch_norm_backward(x, x, {}, three, three, none, none, false,
                                  {.relu = true, .output = three, .dresidual = &dresidual});
            }),
            "batch_norm_backward: output float32 [3] does not match x float32 [4, 3]");
}

}  // namespace
}  // namespace tandem::core
