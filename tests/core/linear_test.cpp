#include "tandem/core/ops/linear.h"

#include "tests/core/awkward.h"

namespace tandem::core {
namespace {

using namespace testing;

struct Case {
  Shape x;
  std::int64_t out;
};
const std::vector<Case> kCases{{{3, 4}, 5},       {{1, 1}, 1},     {{4}, 3},         {{2, 3, 7}, 9},
                               {{0, 4}, 5},       {{3, 0}, 2},     {{70, 130}, 40},  {{2, 30, 64}, 128},
                               {{1, 2, 2, 3}, 1}, {{600, 33}, 34}, {{260, 130}, 132}};

TEST(Linear, ForwardAndGradientsAgreeWithReference) {
  for (const DType dtype : kFloating)
    for (const Case& c : kCases)
      for (const Layout layout : kLayouts)
        for (const bool accumulate : {false, true}) {
          const std::int64_t in = c.x.back(), out = c.out;
          Shape y_shape = c.x;
          y_shape[y_shape.rank() - 1] = out;
          std::int64_t rows = 1;
          for (int d = 0; d < c.x.rank() - 1; ++d) rows *= c.x[d];
          const DType parameter = dtype == DType::bfloat16 && accumulate ? DType::float32 : dtype;
          const Tensor x = laid_out(numbers(c.x, dtype), layout),
                       w = laid_out(numbers({out, in}, parameter, 2), layout);
          const Tensor b = laid_out(numbers({out}, parameter, 3), layout),
                       dy = laid_out(numbers(y_shape, dtype, 4), layout);
          const auto vx = x.to_vector<double>(), vw = w.to_vector<double>(), vb = b.to_vector<double>(),
                     vdy = dy.to_vector<double>();
          Tensor dw = laid_out(numbers({out, in}, parameter, 5), layout),
                 db = laid_out(numbers({out}, parameter, 6), layout);
          std::vector<double> y(at(rows * out)), dx(at(rows * in)), rdw = dw.to_vector<double>(),
                                                                    rdb = db.to_vector<double>();
          if (!accumulate) std::fill(rdw.begin(), rdw.end(), 0), std::fill(rdb.begin(), rdb.end(), 0);
          for (std::int64_t r = 0; r < rows; ++r)
            for (std::int64_t o = 0; o < out; ++o) {
              y[at(r * out + o)] += vb[at(o)];
              rdb[at(o)] += vdy[at(r * out + o)];
              for (std::int64_t i = 0; i < in; ++i) {
                y[at(r * out + o)] += vx[at(r * in + i)] * vw[at(o * in + i)];
                dx[at(r * in + i)] += vdy[at(r * out + o)] * vw[at(o * in + i)];
                rdw[at(o * in + i)] += vdy[at(r * out + o)] * vx[at(r * in + i)];
              }
            }
          const std::string what = fmt::format("{} {} -> {} layout {} {}", name(dtype), c.x.str(), out,
                                               static_cast<int>(layout), accumulate);
          const double scale = std::sqrt(static_cast<double>(std::max(in, rows) + 1));
          const Tensor result = linear(x, w, b);
          ASSERT_EQ(result.shape(), y_shape);
          ASSERT_EQ(result.dtype(), dtype);
          expect_close(result, y, scale, "y " + what);
          expect_close(linear_backward_input(dy, w), dx, std::sqrt(static_cast<double>(out)), "dx " + what);
          linear_backward_weight(dy, x, dw, accumulate);
          expect_close(dw, rdw, scale, "dw " + what);
          linear_backward_bias(dy, db, accumulate);
          expect_close(db, rdb, scale, "db " + what);
          for (std::int64_t i = 0; i < rows * out; ++i) y[at(i)] -= vb[at(i % out)];
          expect_close(linear(x, w, Tensor()), y, scale, "without bias " + what);
        }
}

TEST(Linear, PackedWeightsFollowTheWeights) {
  for (const DType parameter : {DType::bfloat16, DType::float32}) {
    const Tensor x = Tensor::full({64, 64}, 1, {.dtype = DType::bfloat16});
    Tensor w = Tensor::full({64, 64}, 1, {.dtype = parameter});
    EXPECT_EQ(linear(x, w, Tensor()).to_vector<float>()[0], 64);
    EXPECT_EQ(linear(x, w, Tensor()).to_vector<float>()[0], 64);
    EXPECT_EQ(linear_backward_input(x, w).to_vector<float>()[0], 64);
    w.fill(2);
    EXPECT_EQ(linear(x, w, Tensor()).to_vector<float>()[0], 128);
    EXPECT_EQ(linear_backward_input(x, w).to_vector<float>()[0], 128);
  }
}

TEST(Linear, PackedInputsFollowTheInputs) {  // of the size whose gradients of weights take x packed
  const Tensor dy = Tensor::full({256, 128}, 1, {.dtype = DType::bfloat16});
  Tensor x = Tensor::full({256, 128}, 1, {.dtype = DType::bfloat16}), dw = Tensor::empty({128, 128});
  for (const float value : {1.f, 2.f}) {
    x.fill(value);
    for (int use = 0; use < 3; ++use) {
      linear_backward_weight(dy, x, dw, false);
      EXPECT_EQ(dw.to_vector<float>()[5], 256 * value);
    }
  }
}

TEST(Linear, OneOutputWhoseWeightsLieApart) {
  const std::int64_t features = 1200, rows = 64;
  const Tensor x = numbers({rows, features}, DType::float32).to(DType::bfloat16);
  const Tensor w = numbers({1, 5 * features}, DType::float32, 2).slice(1, 0, 5 * features, 5);
  const Tensor expected = linear(x.to(DType::float64), w.to(DType::bfloat16).to(DType::float64), Tensor());
  expect_close(linear(x, w, Tensor()), expected.to_vector<double>(), 8, "y");
}

TEST(Linear, OneShapeInAllPrecisionsInTurn) {  // primitives are kept by shape and dtypes
  const Tensor x = numbers({64, 64}, DType::float32), w = numbers({64, 64}, DType::float32, 2);
  const auto expected = linear(x.to(DType::float64), w.to(DType::float64), Tensor()).to_vector<double>();
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::float32, DType::bfloat16}) {
    Tensor dw = Tensor::empty({64, 64});
    linear_backward_weight(w.to(dtype), x.to(dtype), dw, false);
    expect_close(dw,
                 linear(w.transpose(0, 1).to(DType::float64), x.transpose(0, 1).to(DType::float64), Tensor())
                     .to_vector<double>(),
                 8, "dw");
    expect_close(linear(x.to(dtype), w, Tensor()), expected, 8, "y");
  }
}

TEST(LinearBackwardBias, SameBitsForAnyNumberOfThreads) {
  const Tensor dy = numbers({5000, 33}, DType::float32);
  const auto gradient = [&] {
    Tensor db = Tensor::zeros({33});
    linear_backward_bias(dy, db, false);
    return db.to_vector<float>();
  };
  EXPECT_EQ(with_threads(3, gradient), with_threads(1, gradient));
}

TEST(Linear, ErrorsNameTheShapes) {
  const auto f32 = [](const Shape& s) { return Tensor::zeros(s); };
  TANDEM_EXPECT_ERROR(linear(f32({2, 3}), f32({4, 5}), Tensor()), "do not fit: [2, 3] and [4, 5]");
  TANDEM_EXPECT_ERROR(linear(f32({2, 3}), f32({4, 3}), f32({3})), "bias [3] does not fit weight [4, 3]");
  TANDEM_EXPECT_ERROR(linear(f32({2, 3}), Tensor::zeros({4, 3}, {.dtype = DType::float64}), Tensor()),
                      "linear: weight is float64, activations are float32: needed is float32");
  TANDEM_EXPECT_ERROR(linear_backward_input(f32({2, 3}), f32({4, 3})), "linear_backward_input: dy [..., out]");
  Tensor wrong = f32({4, 4}), half = Tensor::zeros({3, 4}, {.dtype = DType::bfloat16}), four = f32({4});
  TANDEM_EXPECT_ERROR(linear_backward_weight(f32({2, 3}), f32({2, 4}), wrong, false), "do not give [4, 4]");
  TANDEM_EXPECT_ERROR(linear_backward_weight(f32({2, 3}), f32({2, 4}), half, false),
                      "linear_backward_weight: gradient is bfloat16, activations are float32: needed is float32");
  TANDEM_EXPECT_ERROR(linear_backward_bias(f32({2, 3}), four, false), "[2, 3] does not give [4]");
}

}  // namespace
}  // namespace tandem::core
