#include "tandem/core/ops/gather.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/core/awkward.h"

namespace tandem::core {
namespace {

using namespace testing;

Tensor some_index(const Shape& shape, std::int64_t size) {
  return integers(shape, [&](std::int64_t i) { return (i * i + 3 * i) % size; });
}

// Calls f(place in index, place in x, flat position in index) for each element.
template <class F>
void for_each_pick(const Tensor& index, int dim, F&& f) {
  const auto picks = index.to_vector<std::int64_t>();
  Dims place = Dims::filled(index.rank(), 0);
  for (std::size_t flat = 0; flat < picks.size(); ++flat) {
    auto rest = static_cast<std::int64_t>(flat);
    for (int d = index.rank() - 1; d >= 0; --d) {
      place[d] = rest % index.shape()[d];
      rest /= index.shape()[d];
    }
    Dims there = place;
    there[dim] = picks[flat];
    f(place, there, flat);
  }
}

std::size_t flat_of(const Shape& shape, const Dims& place) {
  std::int64_t flat = 0;
  for (int d = 0; d < shape.rank(); ++d) flat = flat * shape[d] + place[d];
  return static_cast<std::size_t>(flat);
}

struct Case {
  Shape x, index;
  int dim;
};
const std::vector<Case> kCases{{{5}, {7}, 0},
                               {{1}, {3}, 0},
                               {{4, 5}, {3, 5}, 0},
                               {{4, 5}, {4, 9}, 1},
                               {{4, 5}, {2, 3}, 1},
                               {{3, 4, 5}, {2, 6, 5}, 1},
                               {{3, 4, 5}, {3, 4, 1}, 2},
                               {{4, 5}, {0, 5}, 0},
                               {{3, 0}, {2, 0}, 0},
                               {{2, 3, 4, 5}, {2, 7, 4, 5}, 1},
                               {{30, 20}, {80, 20}, 0}};

std::vector<Tensor> layouts(const Tensor& x) { return testing::layouts(x, -1, 0); }

TEST(Gather, PicksAlongOneDimension) {
  for (const DType dtype : kEveryDType)
    for (const Case& c : kCases)
      for (const Tensor& x : layouts(normal(c.x, 1).to(dtype)))
        for (const Tensor& index : layouts(some_index(c.index, std::max<std::int64_t>(1, c.x[c.dim])))) {
          const Tensor y = gather(x, c.dim, index);
          ASSERT_EQ(y.shape(), c.index);
          ASSERT_EQ(y.dtype(), dtype);
          const auto values = x.to_vector<double>(), got = y.to_vector<double>();
          for_each_pick(index, c.dim, [&](const Dims&, const Dims& there, std::size_t flat) {
            ASSERT_EQ(got[flat], values[flat_of(c.x, there)]) << c.x.str() << c.index.str();
          });
        }
}

TEST(Gather, IndexMayBeExpanded) {
  const Tensor x = normal({3, 4}, 1), index = Tensor::from<std::int64_t>({2}, {1, 1}).expand({3, 2});
  const auto y = gather(x, 1, index).to_vector<double>(), v = x.to_vector<double>();
  EXPECT_EQ(y, (std::vector<double>{v[2], v[2], v[6], v[6], v[10], v[10]}));
}

TEST(ScatterAdd, IsTheAdjointOfGather) {
  for (const DType dtype : kFloating)
    for (const Case& c : kCases)
      for (const Tensor& start : layouts(normal(c.x, 1, dtype)))
        for (const Tensor& index : layouts(some_index(c.index, std::max<std::int64_t>(1, c.x[c.dim]))))
          for (const Tensor& source : layouts(normal(c.index, 2, dtype))) {
            Tensor destination = start;
            auto expected = start.to_vector<double>();
            std::vector<double> scale;  // of the sums, which float32 makes for bfloat16
            for (const double value : expected) scale.push_back(1 + std::abs(value));
            const auto before = start.clone();
            const auto added = source.to_vector<double>();
            for_each_pick(index, c.dim, [&](const Dims& place, const Dims& there, std::size_t) {
              expected[flat_of(c.x, there)] += added[flat_of(c.index, place)];
              scale[flat_of(c.x, there)] += std::abs(added[flat_of(c.index, place)]);
            });
            scatter_add(destination, c.dim, index, source);
            const auto got = destination.to_vector<double>();
            const double unit = dtype == DType::float64 ? 1e-14 : 1e-6;
            const double last = dtype == DType::bfloat16 ? epsilon(dtype) : 0;  // the result is rounded once
            for (std::size_t i = 0; i < got.size(); ++i)
              ASSERT_NEAR(got[i], expected[i], unit * scale[i] + last * std::abs(expected[i]))
                  << c.x.str() << " at " << i;
            destination.copy_from(before);
          }
}

TEST(ScatterAdd, SourceMayBeLargerThanTheIndex) {
  Tensor destination = Tensor::zeros({3});
  scatter_add(destination, 0, Tensor::from<std::int64_t>({2, 2}), Tensor::from<float>({1, 2, 50}));
  EXPECT_EQ(destination.to_vector<float>(), (std::vector<float>{0, 0, 3}));
}

TEST(ScatterAdd, Bfloat16DoesNotLoseSmallTerms) {
  Tensor destination = Tensor::zeros({1}, {.dtype = DType::bfloat16});
  const Tensor index = Tensor::zeros({1000}, {.dtype = DType::int64});
  scatter_add(destination, 0, index, Tensor::full({1000}, 1, {.dtype = DType::bfloat16}));
  EXPECT_EQ(destination.item(), 1000);
}

TEST(ScatterAdd, SameBitsForAnyNumberOfThreads) {
  const Tensor index = some_index({500, 200}, 3), source = normal({500, 200}, 3, DType::float32);
  const auto sums = [&] {
    Tensor destination = Tensor::zeros({3, 200});
    scatter_add(destination, 0, index, source);
    return destination.to_vector<float>();
  };
  EXPECT_EQ(with_threads(3, sums), with_threads(1, sums));
}

TEST(Gather, ErrorsNameTheRule) {
  const Tensor x = Tensor::zeros({2, 3});
  Tensor destination = x.clone();
  const auto index = [](std::vector<std::int64_t> values, const Shape& shape) { return Tensor::from(values, shape); };
  TANDEM_EXPECT_ERROR(gather(x, 1, index({0, 1, 3, 0}, {2, 2})),
                      "gather: index 3 at [1, 0] is not in [0, 3), the size of dimension 1");
  TANDEM_EXPECT_ERROR(gather(x, 0, index({0, -1}, {1, 2})), "gather: index -1 at [0, 1]");
  TANDEM_EXPECT_ERROR(gather(x, 0, index({0}, {1})), "gather: index [1] does not fit [2, 3]");
  TANDEM_EXPECT_ERROR(gather(x, 0, index({0, 0, 0, 0}, {1, 4})), "index [1, 4] does not fit [2, 3]");
  TANDEM_EXPECT_ERROR(gather(x, 0, x), "needs to be int64, got float32");
  TANDEM_EXPECT_ERROR(scatter_add(destination, 0, index({2}, {1, 1}), x), "scatter_add: index 2 at [0, 0]");
  TANDEM_EXPECT_ERROR(scatter_add(destination, 0, index({0, 0, 0}, {3, 1}), x),
                      "source float32 [2, 3] does not fit index [3, 1]");
  TANDEM_EXPECT_ERROR(scatter_add(destination, 0, index({0}, {1, 1}), x.to(DType::float64)), "source float64");
}

}  // namespace
}  // namespace tandem::core
