// The fused operator against its parts, of which each has a test of its own.
#include "tandem/core/ops/dropout_add_layer_norm.h"

#include <gtest/gtest.h>

#include "tandem/core/ops/binary.h"
#include "tandem/core/ops/dropout.h"
#include "tandem/core/ops/layer_norm.h"
#include "tests/core/awkward.h"
#include "tests/elements.h"

namespace tandem::core {
namespace {

using namespace testing;

constexpr double kEps = 1e-5;
const PhiloxStream kStream = RandomContext{.seed = 7, .epoch = 1, .step = 2, .shard = 3}.stream(4);

const std::vector<Shape> kShapes{{1},      {7},       {4, 1},  {3, 2},       {5, 300},
                                 {300, 5}, {2, 3, 4}, {9, 64}, {2, 3, 4, 5}, {11, 768}};

double tolerance(DType dtype) { return dtype == DType::float64 ? 1e-12 : dtype == DType::float32 ? 1e-5 : 5e-2; }

TEST(DropoutAddLayerNorm, IsItsPartsForwardAndBackward) {
  for (const DType dtype : kFloating)
    for (const Shape& shape : kShapes)
      for (const Tensor& x : layouts(normal(shape, 1, dtype), shape.rank() - 1, shape.rank() - 1))
        for (const double p : {0., 0.3, 1.}) {
          const Tensor residual = exchanged(normal(shape, 2, dtype), 0, -1), dy = normal(shape, 5, dtype);
          const Tensor weight = normal({shape.back()}, 3, dtype), bias = normal({shape.back()}, 4, dtype);
          const std::string what = describe(x) + " p " + std::to_string(p);
          Tensor dweight = Tensor::full({shape.back()}, 1, {.dtype = dtype}), dbias = dweight.clone();
          const auto f = dropout_add_layer_norm(x, residual, weight, bias, kEps, p, kStream);
          const auto g = dropout_add_layer_norm_backward(dy, f, weight, p, dweight, dbias, true);

          const Tensor contiguous = x.contiguous();
          const DropoutResult dropped = dropout(contiguous, p, kStream);
          const Tensor sum = add(residual, p > 0 ? dropped.output : contiguous).contiguous();
          expect_near(f.sum, sum.to_vector<double>(), tolerance(dtype), "sum " + what);
          // From the sum on exactly what layer_norm does.
          Tensor wanted_dweight = Tensor::full({shape.back()}, 1, {.dtype = dtype}),
                 wanted_dbias = wanted_dweight.clone();
          const LayerNormForward normal_form = layer_norm(f.sum, weight, bias, kEps);
          const Tensor dsum = layer_norm_backward(dy, f.sum, weight, normal_form.mean, normal_form.inv_std,
                                                  wanted_dweight, wanted_dbias, true);
          EXPECT_EQ(f.output.to_vector<double>(), normal_form.output.to_vector<double>()) << what;
          EXPECT_EQ(f.mean.to_vector<double>(), normal_form.mean.to_vector<double>()) << what;
          EXPECT_EQ(f.inv_std.to_vector<double>(), normal_form.inv_std.to_vector<double>()) << what;
          expect_near(dweight, wanted_dweight.to_vector<double>(), tolerance(dtype), "dweight " + what);
          expect_near(dbias, wanted_dbias.to_vector<double>(), tolerance(dtype), "dbias " + what);
          expect_near(g.residual, dsum.to_vector<double>(), tolerance(dtype), "dresidual " + what);
          if (p == 0) {
            EXPECT_FALSE(f.mask.defined());
            EXPECT_TRUE(g.x.is_same_view(g.residual));
          } else {
            EXPECT_EQ(f.mask.to_vector<std::uint8_t>(), dropped.mask.to_vector<std::uint8_t>()) << what;
            const Tensor dx = dropout_backward(dsum, dropped.mask, p);
            expect_near(g.x, dx.to_vector<double>(), tolerance(dtype), "dx " + what);
          }
        }
}

TEST(DropoutAddLayerNorm, ParametersAreOptional) {
  const Tensor x = normal({4, 6}, 1), residual = normal({4, 6}, 2), one = Tensor::full({6}, 1),
               zero = Tensor::zeros({6});
  Tensor none;
  for (const double p : {0., 0.5}) {
    const auto bare = dropout_add_layer_norm(x, residual, {}, {}, kEps, p, kStream);
    const auto full = dropout_add_layer_norm(x, residual, one, zero, kEps, p, kStream);
    EXPECT_EQ(bare.output.to_vector<double>(), full.output.to_vector<double>());
    const auto a = dropout_add_layer_norm_backward(x, bare, {}, p, none, none, false);
    const auto b = dropout_add_layer_norm_backward(x, full, one, p, none, none, false);
    EXPECT_EQ(a.x.to_vector<double>(), b.x.to_vector<double>());
    EXPECT_EQ(a.residual.to_vector<double>(), b.residual.to_vector<double>());
  }
}

TEST(DropoutAddLayerNorm, SameBitsForAnyNumberOfThreads) {
  const Tensor x = normal({2000, 77}, 1, DType::float32), dy = normal({2000, 77}, 2, DType::float32),
               weight = normal({77}, 3, DType::float32);
  const auto results = [&] {
    const auto f = dropout_add_layer_norm(x, dy, weight, weight, kEps, 0.2, kStream);
    Tensor dweight = weight.clone(), dbias = weight.clone();
    const auto g = dropout_add_layer_norm_backward(dy, f, weight, 0.2, dweight, dbias, false);
    std::vector<std::vector<float>> all;
    for (const Tensor& t : {f.output, f.sum, f.mean, f.inv_std, g.x, g.residual, dweight, dbias})
      all.push_back(t.to_vector<float>());
    return all;
  };
  EXPECT_EQ(with_threads(3, results), with_threads(1, results));
}

TEST(DropoutAddLayerNorm, BackwardReusesMemoryThatNobodyElseSees) {
  const Tensor x = normal({6, 9}, 1, DType::float32);
  Tensor none;
  for (const double p : {0., 0.5}) {
    const auto f = dropout_add_layer_norm(x, x, {}, {}, kEps, p, kStream);
    Tensor dy = normal({6, 9}, 2, DType::float32);
    const void* memory = testing::address_of(dy);
    const auto shared = dropout_add_layer_norm_backward(dy, f, {}, p, none, none, false);
    EXPECT_NE(testing::address_of(shared.residual), memory);
    const auto reused = dropout_add_layer_norm_backward(std::move(dy), f, {}, p, none, none, false);
    EXPECT_EQ(testing::address_of(reused.residual), memory);
    EXPECT_EQ(reused.residual.to_vector<float>(), shared.residual.to_vector<float>());
    EXPECT_EQ(reused.x.to_vector<float>(), shared.x.to_vector<float>());
  }
}

TEST(DropoutAddLayerNorm, Empty) {
  for (const DType dtype : kFloating)
    for (const Shape& shape : {Shape{0, 3}, Shape{4, 0}})
      for (const double p : {0., 0.5}) {
        const Tensor x = Tensor::zeros(shape, {.dtype = dtype});
        Tensor dweight = Tensor::full({shape.back()}, 1, {.dtype = dtype}), dbias = dweight.clone();
        const auto f = dropout_add_layer_norm(x, x, {}, {}, kEps, p, kStream);
        EXPECT_EQ(f.output.shape(), shape);
        const auto g = dropout_add_layer_norm_backward(x, f, {}, p, dweight, dbias, false);
        EXPECT_EQ(g.x.shape(), shape);
        EXPECT_EQ(g.residual.shape(), shape);
        EXPECT_EQ(dweight.to_vector<float>(), std::vector<float>(at(shape.back()), 0));
      }
}

TEST(DropoutAddLayerNorm, ErrorsNameTheRule) {
  const Tensor x = Tensor::zeros({4, 3}), two = Tensor::zeros({2});
  Tensor none;
  TANDEM_EXPECT_ERROR(dropout_add_layer_norm(x, two, {}, {}, kEps, 0, kStream),
                      "dropout_add_layer_norm: residual float32 [2] does not match x float32 [4, 3]");
  TANDEM_EXPECT_ERROR(dropout_add_layer_norm(x, x, two, {}, kEps, 0, kStream),
                      "dropout_add_layer_norm: weight float32 [2] does not fit the rows of x [4, 3]");
  TANDEM_EXPECT_ERROR(dropout_add_layer_norm(x, x, {}, {}, kEps, 1.5, kStream),
                      "dropout_add_layer_norm: probability 1.5 is not in [0, 1]");
  TANDEM_EXPECT_ERROR(dropout_add_layer_norm(Tensor::scalar(1), Tensor::scalar(1), {}, {}, kEps, 0, kStream),
                      "x needs to be [..., D], got []");
  const auto f = dropout_add_layer_norm(x, x, {}, {}, kEps, 0.5, kStream);
  TANDEM_EXPECT_ERROR(dropout_add_layer_norm_backward(two, f, {}, 0.5, none, none, false),
                      "dropout_add_layer_norm_backward: gradient float32 [2] does not match x float32 [4, 3]");
}

}  // namespace
}  // namespace tandem::core
