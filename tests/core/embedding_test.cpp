#include "tandem/core/ops/embedding.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/core/awkward.h"

namespace tandem::core {
namespace {

using namespace testing;

Tensor some_indices(const Shape& shape, std::int64_t rows) {
  return integers(shape, [&](std::int64_t i) { return (i * i + i) % rows; });
}

TEST(Embedding, LooksUpRows) {
  for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16, DType::int64})
    for (const Shape& shape : {Shape{}, Shape{1}, Shape{4}, Shape{3, 5}, Shape{2, 0}, Shape{2, 2, 3}, Shape{900}})
      for (const std::int64_t columns : {0, 1, 3, 80}) {
        const Tensor table = normal({11, columns}, 1).to(dtype);
        for (const Tensor& weight : {table, exchanged(table, 0, 1)}) {
          const Tensor indices = some_indices(shape, 11);
          const Tensor y = embedding(weight, indices);
          Shape expected = shape;
          expected.push_back(columns);
          ASSERT_EQ(y.shape(), expected);
          const auto rows = indices.to_vector<std::int64_t>();
          const auto values = weight.to_vector<double>(), got = y.to_vector<double>();
          for (std::size_t i = 0; i < got.size(); ++i) {
            const auto width = static_cast<std::size_t>(columns);
            ASSERT_EQ(got[i], values[static_cast<std::size_t>(rows[i / width]) * width + i % width]);
          }
        }
      }
}

TEST(Embedding, IndicesMayHaveAnyStrides) {
  const Tensor weight = normal({9, 2}, 1), indices = some_indices({4, 3}, 9).transpose(0, 1);
  EXPECT_EQ(embedding(weight, indices).to_vector<double>(),
            embedding(weight, indices.clone().contiguous()).to_vector<double>());
  EXPECT_EQ(embedding(weight, Tensor::from<std::int64_t>({3}).expand({5})).shape(), (Shape{5, 2}));
}

TEST(Embedding, BackwardSumsOverPositions) {
  for (const DType dtype : kFloating)
    for (const Shape& shape : {Shape{}, Shape{1}, Shape{7}, Shape{3, 50}, Shape{0}, Shape{400}})
      for (const std::int64_t columns : {0, 1, 5, 270})
        for (const bool accumulate : {false, true})
          for (const std::int64_t padding : {-1, 2})
            for (const bool strided : {false, true}) {
              const std::int64_t rows = 6;
              const Tensor indices = some_indices(shape, rows - 1);  // the last row gets nothing
              Shape dy_shape = shape;
              dy_shape.push_back(columns);
              Tensor dy = normal(dy_shape, 2, dtype);
              if (strided) dy = exchanged(dy, 0, -1);
              Tensor dweight = normal({rows, columns}, 3, dtype);
              if (strided) dweight = normal({columns, 2 * rows}, 3, dtype).slice(1, 0, 2 * rows, 2).transpose(0, 1);
              auto expected = accumulate ? dweight.to_vector<double>()
                                         : std::vector<double>(static_cast<std::size_t>(rows * columns));
              const auto g = dy.to_vector<double>();
              const auto picks = indices.to_vector<std::int64_t>();
              std::vector<double> scale(expected.size(), 1);
              for (std::size_t i = 0; i < g.size(); ++i) {
                const auto width = static_cast<std::size_t>(columns);
                if (picks[i / width] == padding) continue;
                const std::size_t at = static_cast<std::size_t>(picks[i / width]) * width + i % width;
                expected[at] += g[i];
                scale[at] += std::abs(g[i]);
              }
              embedding_backward(dy, indices, dweight, accumulate, padding);
              const auto got = dweight.to_vector<double>();
              const double tolerance = dtype == DType::float64 ? 1e-14 : dtype == DType::float32 ? 5e-7 : 1.0 / 200;
              for (std::size_t i = 0; i < got.size(); ++i)
                ASSERT_NEAR(got[i], expected[i],
                            tolerance * (dtype == DType::bfloat16 ? 1 + std::abs(expected[i]) : scale[i]));
            }
}

TEST(Embedding, BackwardLeavesMemoryBetweenStridesAlone) {
  Tensor memory = Tensor::full({4, 6}, 5);
  Tensor dweight = memory.slice(1, 1, 4);
  embedding_backward(Tensor::full({2, 3}, 1), Tensor::from<std::int64_t>({0, 2}), dweight, false);
  EXPECT_EQ(memory.to_vector<float>(), (std::vector<float>{5, 1, 1, 1, 5, 5, 5, 0, 0, 0, 5, 5,  //
                                                           5, 1, 1, 1, 5, 5, 5, 0, 0, 0, 5, 5}));
}

TEST(Embedding, BackwardOfManyEqualIndicesIsExact) {
  // One long chain of float additions would be off by far more.
  const std::int64_t n = 1 << 18;
  Tensor dweight = Tensor::zeros({1, 1});
  embedding_backward(Tensor::full({n, 1}, 0.1f), Tensor::zeros({n}, {.dtype = DType::int64}), dweight, false);
  EXPECT_NEAR(dweight.item() / (static_cast<double>(n) * static_cast<double>(0.1f)), 1, 1e-5);
}

TEST(Embedding, BackwardGivesTheSameBitsForAnyNumberOfThreads) {
  const Tensor dy = normal({2000, 333}, 4, DType::float32), indices = some_indices({2000}, 7);
  const auto gradient = [&] {
    Tensor dweight = Tensor::empty({7, 333});
    embedding_backward(dy, indices, dweight, false);
    return dweight.to_vector<float>();
  };
  const auto one = with_threads(1, gradient);
  EXPECT_EQ(with_threads(2, gradient), one);
  EXPECT_EQ(with_threads(5, gradient), one);
}

TEST(Embedding, ErrorsNameTheRule) {
  const Tensor table = Tensor::zeros({4, 2});
  Tensor dweight = table.clone();
  TANDEM_EXPECT_ERROR(embedding(table, Tensor::from<std::int64_t>({0, 4})),
                      "embedding: index 4 of position 1 is not in [0, 4)");
  TANDEM_EXPECT_ERROR(embedding(table, Tensor::from<std::int64_t>({-1})), "index -1 of position 0");
  TANDEM_EXPECT_ERROR(embedding(Tensor::zeros({4}), Tensor::arange(2)), "needs to be [V, D], got [4]");
  TANDEM_EXPECT_ERROR(embedding(table, Tensor::zeros({2})), "need to be int64, got float32");
  TANDEM_EXPECT_ERROR(embedding_backward(Tensor::zeros({3, 2}), Tensor::arange(2), dweight, false),
                      "gradient float32 [3, 2] of an output float32 [2, 2]");
  TANDEM_EXPECT_ERROR(embedding_backward(Tensor::zeros({1, 2}), Tensor::from<std::int64_t>({9}), dweight, true),
                      "index 9");
}

}  // namespace
}  // namespace tandem::core
