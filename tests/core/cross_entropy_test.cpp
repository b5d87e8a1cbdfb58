#include "tandem/core/ops/cross_entropy.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tandem/core/ops/reduce.h"
#include "tests/core/awkward.h"
#include "tests/elements.h"

namespace tandem::core {
namespace {

using namespace testing;

Tensor normal(const Shape& shape, std::uint32_t stream, DType dtype = DType::float64) {
  return testing::normal(shape, stream, dtype, 0, 2);
}

// Every fifth target is the ignored one, if `ignores`.
Tensor some_targets(const Shape& logits, bool ignores) {
  Shape shape{logits[0]};
  for (int i = 2; i < logits.rank(); ++i) shape.push_back(logits[i]);
  return integers(shape, [&](std::int64_t i) { return ignores && i % 5 == 1 ? -100 : (i * 7) % logits[1]; });
}

struct Reference {
  std::vector<double> loss;  // one value, or all
  double total_weight = 0;
};

// The formula, straight from the definition.
Reference reference(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& options) {
  const auto x = logits.to_vector<double>();
  const auto t = target.to_vector<std::int64_t>();
  const std::int64_t classes = logits.shape()[1];
  const std::int64_t inner = target.numel() / std::max<std::int64_t>(1, logits.shape()[0]);
  const auto w = options.class_weights.defined() ? options.class_weights.to_vector<double>()
                                                 : std::vector<double>(static_cast<std::size_t>(classes), 1);
  Reference result;
  double sum = 0;
  for (std::int64_t p = 0; p < target.numel(); ++p) {
    const auto at = [&](std::int64_t c) {
      return x[static_cast<std::size_t>((p / inner * classes + c) * inner + p % inner)];
    };
    const std::int64_t label = t[static_cast<std::size_t>(p)];
    double loss = 0;
    if (label != options.ignore_index) {
      double normalizer = 0, smooth = 0;
      for (std::int64_t c = 0; c < classes; ++c) normalizer += std::exp(at(c));
      normalizer = std::log(normalizer);
      for (std::int64_t c = 0; c < classes; ++c) smooth -= w[static_cast<std::size_t>(c)] * (at(c) - normalizer);
      const double weight = w[static_cast<std::size_t>(label)];
      loss = -(1 - options.label_smoothing) * weight * (at(label) - normalizer) +
             options.label_smoothing / static_cast<double>(classes) * smooth;
      result.total_weight += weight;
    }
    sum += loss;
    if (options.reduction == Reduction::none) result.loss.push_back(loss);
  }
  if (options.reduction == Reduction::mean) result.loss = {sum / result.total_weight};
  if (options.reduction == Reduction::sum) result.loss = {sum};
  return result;
}

std::vector<CrossEntropyOptions> all_options(std::int64_t classes) {
  std::vector<CrossEntropyOptions> all;
  Tensor weights = Tensor::empty({classes});
  fill_uniform(weights, 0.5, 2, RandomContext{.seed = 8}.stream(1));
  for (const Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none})
    for (const double smoothing : {0., 0.1, 1.})
      for (const Tensor& w : {Tensor(), weights})
        all.push_back({.label_smoothing = smoothing, .reduction = reduction, .class_weights = w});
  return all;
}

const std::vector<Shape> kShapes{{8, 10},   {1, 1},         {3, 1},         {1, 700}, {6, 300},
                                 {3, 5, 7}, {2, 300, 3, 2}, {2, 3, 20, 15}, {700, 3}};

std::vector<Tensor> layouts(const Tensor& x) { return testing::layouts(x, 1, 0); }

double tolerance(DType dtype) { return dtype == DType::float64 ? 1e-12 : dtype == DType::float32 ? 2e-6 : 1.0 / 100; }

TEST(CrossEntropy, MatchesTheDefinition) {
  for (const DType dtype : kFloating)
    for (const Shape& shape : kShapes)
      for (const CrossEntropyOptions& options : all_options(shape[1]))
        for (const Tensor& logits : layouts(normal(shape, 1, dtype))) {
          const Tensor target = some_targets(shape, true);
          const CrossEntropyResult result = cross_entropy(logits, target, options);
          const Reference expected = reference(logits, target, options);
          EXPECT_NEAR(result.total_weight.item(), expected.total_weight,
                      1e-9 + expected.total_weight * tolerance(dtype));
          EXPECT_EQ(result.loss.dtype(), dtype == DType::float64 ? DType::float64 : DType::float32);
          EXPECT_EQ(result.loss.shape(), options.reduction == Reduction::none ? target.shape() : Shape{});
          expect_near(result.loss, expected.loss, tolerance(dtype),
                      fmt::format("{} smoothing {}", describe(logits), options.label_smoothing));
          EXPECT_EQ(result.max.to_vector<double>(), max(logits, 1, false).values.to_vector<double>());
        }
}

TEST(CrossEntropy, BackwardMatchesFiniteDifferences) {
  for (const Shape& shape : {Shape{4, 5}, Shape{2, 3, 4}, Shape{2, 3, 2, 3}})
    for (const CrossEntropyOptions& options : all_options(shape[1]))
      for (const Tensor& logits : layouts(normal(shape, 1))) {
        const Tensor target = some_targets(shape, true);
        const CrossEntropyResult result = cross_entropy(logits, target, options);
        const Tensor dloss = normal(result.loss.shape(), 2);
        const auto g = dloss.to_vector<double>();
        const auto dx = cross_entropy_backward(dloss, logits, target, options, result).to_vector<double>();
        const Tensor flat = logits.contiguous();
        for (std::int64_t i = 0; i < logits.numel(); ++i) {
          double difference = 0;
          for (const double sign : {1., -1.}) {
            Tensor moved = flat.clone();
            testing::add_to_element(moved, i, sign * 1e-5);
            const auto loss = reference(moved, target, options).loss;
            for (std::size_t k = 0; k < loss.size(); ++k) difference += sign * g[k] * loss[k];
          }
          ASSERT_NEAR(dx[static_cast<std::size_t>(i)], difference / 2e-5, 1e-8) << shape.str() << " at " << i;
        }
      }
}

TEST(CrossEntropy, BackwardOfFloatAndBfloat16MatchesFloat64) {
  for (const DType dtype : {DType::float32, DType::bfloat16})
    for (const Shape& shape : kShapes)
      for (const CrossEntropyOptions& options : all_options(shape[1]))
        for (const Tensor& logits : layouts(normal(shape, 1, dtype))) {
          const Tensor target = some_targets(shape, true);
          const auto gradient = [&](const Tensor& x) {
            const CrossEntropyResult forward = cross_entropy(x, target, options);
            const Tensor dloss = Tensor::full(forward.loss.shape(), 0.5, {.dtype = forward.loss.dtype()});
            return cross_entropy_backward(dloss, x, target, options, forward);
          };
          const Tensor dx = gradient(logits);
          EXPECT_EQ(dx.dtype(), dtype);
          EXPECT_TRUE(dx.is_contiguous() || dx.strides() == logits.strides()) << describe(logits);
          const auto got = dx.to_vector<double>();
          const auto expected = gradient(logits.to(DType::float64)).to_vector<double>();
          for (std::size_t i = 0; i < got.size(); ++i)
            ASSERT_NEAR(got[i], expected[i], tolerance(dtype)) << name(dtype) << shape.str() << " at " << i;
        }
}

TEST(CrossEntropy, AllIgnoredIsNanWithGradientZero) {
  const Tensor logits = normal({3, 4}, 1, DType::float32), target = Tensor::full({3}, -100, {.dtype = DType::int64});
  const CrossEntropyResult result = cross_entropy(logits, target);
  EXPECT_TRUE(std::isnan(result.loss.item()));
  const Tensor dx = cross_entropy_backward(Tensor::scalar(1), logits, target, {}, result);
  EXPECT_EQ(dx.to_vector<float>(), std::vector<float>(12, 0));
  EXPECT_EQ(cross_entropy(logits, target, {.reduction = Reduction::sum}).loss.item(), 0);
}

TEST(CrossEntropy, EmptyBatch) {
  const Tensor logits = Tensor::zeros({0, 4}), target = Tensor::zeros({0}, {.dtype = DType::int64});
  EXPECT_TRUE(std::isnan(cross_entropy(logits, target).loss.item()));
  EXPECT_EQ(cross_entropy(logits, target, {.reduction = Reduction::sum}).loss.item(), 0);
  EXPECT_EQ(cross_entropy(logits, target, {.reduction = Reduction::none}).loss.shape(), (Shape{0}));
  const CrossEntropyResult forward = cross_entropy(logits, target);
  EXPECT_EQ(cross_entropy_backward(Tensor::scalar(1), logits, target, {}, forward).shape(), (Shape{0, 4}));
}

TEST(CrossEntropy, OwnIgnoreIndexMayBeAClass) {
  const Tensor logits = normal({4, 3}, 1), target = Tensor::from<std::int64_t>({0, 1, 0, 2});
  const CrossEntropyOptions options{.ignore_index = 0};
  const CrossEntropyResult result = cross_entropy(logits, target, options);
  EXPECT_EQ(result.total_weight.item(), 2);
  EXPECT_NEAR(result.loss.item(), reference(logits, target, options).loss[0], 1e-12);
}

TEST(CrossEntropy, LargeLogitsStayFinite) {
  const CrossEntropyResult result =
      cross_entropy(Tensor::from<float>({1e4f, -1e4f, 0}, {1, 3}), Tensor::from<std::int64_t>({1}));
  EXPECT_EQ(result.loss.item(), 2e4);
}

TEST(CrossEntropy, SameBitsForAnyNumberOfThreads) {
  const Tensor logits = normal({3000, 37}, 1, DType::float32), target = some_targets({3000, 37}, false);
  const auto loss = [&] { return cross_entropy(logits, target).loss.item(); };
  EXPECT_EQ(with_threads(3, loss), with_threads(1, loss));
}

TEST(CrossEntropy, ErrorsNameTheRule) {
  const Tensor x = Tensor::zeros({2, 3}), t = Tensor::from<std::int64_t>({0, 1});
  TANDEM_EXPECT_ERROR(cross_entropy(x, Tensor::from<std::int64_t>({0, 3})), "target 3 of position 1 is not in [0, 3)");
  TANDEM_EXPECT_ERROR(cross_entropy(x, Tensor::from<std::int64_t>({-1, 0})), "target -1 of position 0");
  TANDEM_EXPECT_ERROR(cross_entropy(x, Tensor::arange(3)), "got [2, 3] and [3]");
  TANDEM_EXPECT_ERROR(cross_entropy(Tensor::zeros({3}), t), "got [3] and [2]");
  TANDEM_EXPECT_ERROR(cross_entropy(x, t.to(DType::int32)), "needs to be int64, got int32");
  TANDEM_EXPECT_ERROR(cross_entropy(x, t, {.label_smoothing = 1.5}), "label_smoothing 1.5");
  TANDEM_EXPECT_ERROR(cross_entropy(x, t, {.class_weights = Tensor::zeros({4})}),
                      "class weights float32 [4] do not fit 3");
  TANDEM_EXPECT_ERROR(cross_entropy_backward(Tensor::zeros({2}), x, t, {}, {}), "float32 [2] of a loss float32 []");
  TANDEM_EXPECT_ERROR(
      cross_entropy_backward(Tensor::zeros({}), x, t, {}, cross_entropy(Tensor::zeros({1, 3}), t.slice(0, 0, 1))),
      "normaliser float32 [1] is not what forward gave for logits [2, 3]");
}

}  // namespace
}  // namespace tandem::core
