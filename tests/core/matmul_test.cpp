#include "tandem/core/ops/matmul.h"

#include "tests/core/awkward.h"

namespace tandem::core {
namespace {

using namespace testing;

Shape with_matrix(const Shape& batch, std::int64_t rows, std::int64_t columns) {
  Shape shape = batch;
  shape.push_back(rows);
  shape.push_back(columns);
  return shape;
}

std::vector<double> reference(const Tensor& a, const Tensor& b) {
  const auto batch_of = [](const Tensor& t) {
    return Shape(std::span(t.shape().begin(), static_cast<std::size_t>(t.rank() - 2)));
  };
  const Shape batch = broadcast_shape("reference", batch_of(a), batch_of(b));
  const std::int64_t m = a.shape()[a.rank() - 2], k = a.shape().back(), n = b.shape().back(), count = numel(batch);
  const auto va = a.to(DType::float64).expand(with_matrix(batch, m, k)).to_vector<double>();
  const auto vb = b.to(DType::float64).expand(with_matrix(batch, k, n)).to_vector<double>();
  std::vector<double> out(static_cast<std::size_t>(count * m * n), 0.0);
  for (std::int64_t s = 0; s < count; ++s)
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j)
        for (std::int64_t l = 0; l < k; ++l)
          out[static_cast<std::size_t>((s * m + i) * n + j)] +=
              va[static_cast<std::size_t>((s * m + i) * k + l)] * vb[static_cast<std::size_t>((s * k + l) * n + j)];
  return out;
}

struct Sizes {
  std::int64_t m, k, n;
};
const std::vector<Sizes> kSizes{{1, 1, 1},     {1, 5, 1},     {3, 1, 7},    {8, 16, 32}, {5, 0, 4},
                                {0, 3, 2},     {4, 3, 0},     {17, 33, 19}, {13, 7, 16}, {64, 65, 66},
                                {70, 130, 90}, {1, 300, 257}, {129, 300, 1}};

TEST(Matmul, EveryLayoutAgreesWithReference) {
  for (const DType dtype : kFloating)
    for (const Sizes& s : kSizes)
      for (const Layout left : kLayouts)
        for (const Layout right : kLayouts) {
          const Tensor a = laid_out(numbers({s.m, s.k}, dtype), left),
                       b = laid_out(numbers({s.k, s.n}, dtype, 2), right);
          const Tensor out = matmul(a, b);
          ASSERT_EQ(out.shape(), (Shape{s.m, s.n}));
          expect_close(out, reference(a, b), std::sqrt(static_cast<double>(s.k)),
                       fmt::format("{} {}x{}x{} layouts {} {}", name(dtype), s.m, s.k, s.n, static_cast<int>(left),
                                   static_cast<int>(right)));
        }
}

TEST(Matmul, BatchesBroadcast) {
  const std::vector<std::pair<Shape, Shape>> batches{{{3}, {}},        {{}, {3}}, {{2, 3}, {3}}, {{2, 1}, {1, 3}},
                                                     {{2, 3}, {2, 3}}, {{0}, {}}, {{1}, {4}},    {{2, 1, 2}, {3, 1}}};
  for (const DType dtype : kFloating)
    for (const Sizes& s : {Sizes{4, 5, 6}, Sizes{33, 70, 40}, Sizes{2, 0, 3}})
      for (const auto& [left, right] : batches)
        for (const Layout layout : kLayouts) {
          const Tensor a = laid_out(numbers(with_matrix(left, s.m, s.k), dtype), layout);
          const Tensor b = laid_out(numbers(with_matrix(right, s.k, s.n), dtype, 2), layout);
          expect_close(matmul(a, b), reference(a, b), std::sqrt(static_cast<double>(s.k)),
                       a.shape().str() + " x " + b.shape().str());
        }
}

// Every third of 7 rows, every second of 9 columns: matrices of a batch that interlock, which oneDNN cannot describe.
TEST(Matmul, StepsThatDoNotDivideTheSizeAgreeWithReference) {
  for (const DType dtype : kFloating)
    for (const Sizes& s : {Sizes{3, 4, 5}, Sizes{31, 70, 41}}) {
      const Tensor a = numbers({2, 3 * s.m - 2, s.k}, dtype).slice(1, 0, 3 * s.m, 3);
      const Tensor b = numbers({2, s.k, 2 * s.n - 1}, dtype, 2).slice(2, 0, 2 * s.n, 2);
      Tensor out = poison({2, 3 * s.m - 2, s.n}, dtype).slice(1, 0, 3 * s.m, 3);
      matmul_into(a, b, out, false);
      const std::string what = fmt::format("{} {}x{}x{}", name(dtype), s.m, s.k, s.n);
      expect_close(out, reference(a, b), std::sqrt(static_cast<double>(s.k)), what);
      expect_close(matmul(a, b), reference(a, b), std::sqrt(static_cast<double>(s.k)), what);
    }
}

TEST(Matmul, HeadsAreMultipliedInPlace) {  // attention: [N, S, heads, D] seen as [N, heads, S, D]
  for (const DType dtype : kFloating) {
    const Tensor q = numbers({2, 20, 3, 16}, dtype).permute({0, 2, 1, 3}),
                 k = numbers({2, 20, 3, 16}, dtype, 2).permute({0, 2, 1, 3});
    const Tensor scores = matmul(q, k.transpose(2, 3));
    expect_close(scores, reference(q, k.transpose(2, 3)), 4, "scores");
    Tensor context = Tensor::zeros({2, 20, 3, 16}, {.dtype = dtype});
    Tensor heads = context.permute({0, 2, 1, 3});
    matmul_into(scores, k, heads, false);
    expect_close(heads, reference(scores, k), 8, "context");
  }
}

TEST(MatmulInto, WritesAndAddsInAnyLayout) {
  for (const DType dtype : kFloating)
    for (const DType result : {dtype, DType::float32}) {
      if (dtype == DType::float64 && result != dtype) continue;
      for (const Sizes& s : kSizes)
        for (const Layout layout : kLayouts)
          for (const bool accumulate : {false, true}) {
            const Tensor a = numbers({s.m, s.k}, dtype), b = numbers({s.k, s.n}, dtype, 2);
            const Tensor before = numbers({s.m, s.n}, result, 3);
            Tensor out = laid_out(before.clone(), layout);
            std::vector<double> wanted = reference(a, b);
            const std::vector<double> old = before.to_vector<double>();
            if (accumulate)
              for (std::size_t i = 0; i < old.size(); ++i) wanted[i] += old[i];
            matmul_into(a, b, out, accumulate);
            expect_close(out, wanted, std::sqrt(static_cast<double>(s.k + 1)),
                         fmt::format("{} {}x{}x{} layout {} {}", name(dtype), s.m, s.k, s.n, static_cast<int>(layout),
                                     accumulate));
          }
    }
}

TEST(Matmul, Float64HasTheSameBitsForAnyNumberOfThreads) {
  const Tensor a = numbers({300, 70}, DType::float64), b = numbers({70, 50}, DType::float64, 2);
  const auto product = [&] { return matmul(a, b).to_vector<double>(); };
  EXPECT_EQ(with_threads(3, product), with_threads(1, product));
}

TEST(Matmul, OperandsAreOnlyRead) {
  const Tensor a = numbers({70, 70}, DType::float32), b = numbers({70, 70}, DType::float32, 2);
  const auto versions = std::pair(a.version(), b.version());
  matmul(a, b);
  EXPECT_EQ(versions, std::pair(a.version(), b.version()));
}

TEST(Matmul, ErrorsNameTheShapes) {
  const auto f32 = [](const Shape& s) { return Tensor::zeros(s); };
  TANDEM_EXPECT_ERROR(matmul(f32({8, 16}), f32({32, 4})),
                      "matmul: inner dimensions differ: [8, 16] x [32, 4] (16 and 32)");
  TANDEM_EXPECT_ERROR(matmul(f32({8}), f32({8, 4})), "two dimensions or more: [8] x [8, 4]");
  TANDEM_EXPECT_ERROR(matmul(f32({2, 2, 2}), f32({3, 2, 2})), "matmul");
  TANDEM_EXPECT_ERROR(matmul(f32({2, 2}), Tensor::zeros({2, 2}, {.dtype = DType::float64})),
                      "dtypes differ: float32 x float64");
  TANDEM_EXPECT_ERROR(
      matmul(Tensor::zeros({2, 2}, {.dtype = DType::int64}), Tensor::zeros({2, 2}, {.dtype = DType::int64})), "int64");
  Tensor wrong = f32({2, 3});
  TANDEM_EXPECT_ERROR(matmul_into(f32({2, 2}), f32({2, 2}), wrong, false), "gives [2, 2], the destination is [2, 3]");
  TANDEM_EXPECT_ERROR(matmul(Tensor(), f32({2, 2})), "undefined");
}

}  // namespace
}  // namespace tandem::core
