#include "tandem/core/ops/reduce.h"

#include <gtest/gtest.h>

#include <limits>

#include "tandem/core/ops/binary.h"
#include "tests/core/awkward.h"

namespace tandem::core {
namespace {

using namespace testing;

std::vector<std::vector<int>> subsets(int rank) {
  std::vector<std::vector<int>> all;
  for (unsigned set = 0; set < 1u << rank; ++set) {
    all.emplace_back();
    for (int i = 0; i < rank; ++i)
      if (set >> i & 1u) all.back().push_back(i);
  }
  return all;
}

// x's shape with 1 where it is summed: what `dims` names, or everything where it names nothing.
Shape kept_shape(const Shape& shape, const std::vector<int>& dims) {
  Shape kept = dims.empty() ? Dims::filled(shape.rank(), 1) : shape;
  for (const int dim : dims) kept[dim] = 1;
  return kept;
}

struct Sums {
  std::vector<double> sum, size;  // size: of the absolute values, the scale of rounding errors
};

Sums reference_sum(const Tensor& x, const Shape& kept) {
  const auto values = x.to_vector<double>();
  std::vector<long double> total(static_cast<std::size_t>(numel(kept))), size = total;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t to = broadcast_index(static_cast<std::int64_t>(i), kept, x.shape());
    total[to] += values[i];
    size[to] += std::fabs(values[i]);
  }
  return {std::vector<double>(total.begin(), total.end()), std::vector<double>(size.begin(), size.end())};
}

TEST(Reduce, SumAndMeanMatchReferenceForEveryLayoutAndDimensions) {
  for (const DType dtype : kFloating)
    for (const Tensor& x : awkward_tensors(dtype))
      for (const auto& dims : subsets(x.rank())) {
        const Shape kept = kept_shape(x.shape(), dims);
        const Sums wanted = reference_sum(x, kept);
        const double count = static_cast<double>(x.numel()) / static_cast<double>(numel(kept));
        const Tensor total = sum(x, dims, true), average = mean(x, dims, true), dropped = sum(x, dims, false);
        ASSERT_EQ(total.shape(), kept);
        ASSERT_EQ(total.dtype(), dtype);
        ASSERT_TRUE(total.is_contiguous());
        ASSERT_EQ(dropped.rank(), dims.empty() ? 0 : x.rank() - static_cast<int>(dims.size()));
        const auto got = total.to_vector<double>(), got_mean = average.to_vector<double>();
        ASSERT_EQ(dropped.to_vector<double>(), got);
        for (std::size_t i = 0; i < got.size(); ++i) {
          // The result is rounded once to the dtype; what is added before, in float, contributes far less than its
          // scale.
          const double tolerance = epsilon(dtype) * std::fabs(wanted.sum[i]) +
                                   8 * epsilon(dtype == DType::float64 ? dtype : DType::float32) * wanted.size[i];
          ASSERT_TRUE(close(got[i], wanted.sum[i], tolerance))
              << got[i] << ", not " << wanted.sum[i] << ": " << describe(x);
          const double wanted_mean = x.numel() == 0 ? kNan : wanted.sum[i] / count;
          ASSERT_TRUE(close(got_mean[i], wanted_mean, tolerance / std::max(count, 1.0))) << describe(x);
        }
      }
}

TEST(Reduce, IntegersAndBoolAreCountedInInt64) {
  for (const DType dtype : {DType::int64, DType::int32, DType::uint8, DType::boolean})
    for (const Tensor& x : awkward_tensors(dtype, 0, 100))
      for (const auto& dims : subsets(x.rank())) {
        const Tensor total = sum(x, dims, true);
        ASSERT_EQ(total.dtype(), DType::int64);
        ASSERT_EQ(total.to_vector<double>(), reference_sum(x, kept_shape(x.shape(), dims)).sum) << describe(x);
      }
}

// Shapes with many tasks, strips and blocks: long rows, many rows, wide and narrow columns, channels-last.
std::vector<Tensor> large_tensors(DType dtype) {
  const auto make = [&](const Shape& shape) { return random_tensor(shape, dtype, 21, -1, 2); };
  return {make({300001}),
          make({3, 100003}),
          make({3, 300, 203}).slice(2, 1, 202),
          make({20011, 10}),
          make({1000, 311}),
          make({70, 4999}),
          make({5, 40, 31, 33}),
          make({5, 40, 31, 33}).contiguous(MemoryFormat::channels_last),
          make({400001}).slice(0, 0, 400001, 3)};
}

TEST(Reduce, LargeSumsAreAccurate) {
  for (const DType dtype : kFloating)
    for (const Tensor& x : large_tensors(dtype))
      for (const auto& dims : subsets(x.rank())) {
        const Sums wanted = reference_sum(x, kept_shape(x.shape(), dims));
        const auto got = sum(x, dims).to_vector<double>();
        for (std::size_t i = 0; i < got.size(); ++i) {
          const double exact = dtype == DType::float64 ? 1e-15 : 1e-6;  // of the absolute values
          ASSERT_NEAR(got[i], wanted.sum[i], epsilon(dtype) * std::fabs(wanted.sum[i]) + exact * wanted.size[i])
              << describe(x);
        }
      }
}

TEST(Reduce, SameBitsForAnyNumberOfThreads) {
  for (const DType dtype : kFloating)
    for (const Tensor& x : large_tensors(dtype))
      for (const auto& dims : subsets(x.rank())) {
        const auto sums = [&] { return sum(x, dims).to_vector<double>(); };
        const auto one = with_threads(1, sums);
        for (const int threads : {2, 3})
          ASSERT_EQ(with_threads(threads, sums), one) << threads << " threads: " << describe(x);
      }
}

TEST(Reduce, SumToUndoesBroadcasting) {
  for (const DType dtype : kFloating)
    for (const Tensor& x : awkward_tensors(dtype)) {
      for (const auto& dims : subsets(x.rank())) {
        if (dims.empty()) continue;
        const Shape kept = kept_shape(x.shape(), dims);
        const Tensor back = sum_to(x, kept);
        ASSERT_EQ(back.shape(), kept);
        ASSERT_EQ(back.to_vector<double>(),
                  kept == x.shape() ? x.to_vector<double>() : sum(x, dims).to_vector<double>());
      }
      ASSERT_TRUE(sum_to(x, x.shape()).is_same_view(x));
      ASSERT_EQ(sum_to(x, {}).shape(), Shape{});
      if (x.rank() > 1) {
        const Shape row = {x.shape().back()};
        const Tensor back = sum_to(x, row);
        ASSERT_EQ(back.shape(), row);
        std::vector<int> leading;
        for (int i = 0; i + 1 < x.rank(); ++i) leading.push_back(i);
        ASSERT_EQ(back.to_vector<double>(), sum(x, leading).to_vector<double>());
      }
    }
  EXPECT_EQ(sum_to(Tensor::zeros({0, 3}), {1, 3}).to_vector<float>(), std::vector<float>(3, 0));
}

void check_extremes(const Tensor& x) {
  const auto values = x.to_vector<double>();
  for (int dim = 0; dim < x.rank(); ++dim) {
    if (x.shape()[dim] == 0) continue;
    const Shape kept = kept_shape(x.shape(), {dim});
    const ValuesAndIndices largest = max(x, dim, true), smallest = min(x, dim - x.rank());
    ASSERT_EQ(largest.values.shape(), kept);
    ASSERT_EQ(largest.indices.shape(), kept);
    ASSERT_EQ(smallest.values.rank(), x.rank() - 1);
    ASSERT_EQ(largest.values.dtype(), x.dtype());
    std::vector<std::int64_t> first(largest.indices.to_vector<std::int64_t>().size(), -1), last = first,
                                                                                           seen(first.size(), 0);
    std::vector<double> high(first.size()), low(first.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t to = broadcast_index(static_cast<std::int64_t>(i), kept, x.shape());
      const std::int64_t at = seen[to]++;
      const double v = values[i];
      if (at == 0 || (!std::isnan(high[to]) && (v > high[to] || std::isnan(v)))) high[to] = v, first[to] = at;
      if (at == 0 || (!std::isnan(low[to]) && (v < low[to] || std::isnan(v)))) low[to] = v, last[to] = at;
    }
    ASSERT_EQ(largest.indices.to_vector<std::int64_t>(), first) << describe(x) << " along " << dim;
    ASSERT_EQ(smallest.indices.to_vector<std::int64_t>(), last) << describe(x) << " along " << dim;
    ASSERT_EQ(argmax(x, dim).to_vector<std::int64_t>(), first);
    ASSERT_EQ(argmax(x, dim).rank(), x.rank() - 1);
    const auto got_high = largest.values.to_vector<double>(), got_low = smallest.values.to_vector<double>();
    for (std::size_t i = 0; i < high.size(); ++i) {
      ASSERT_TRUE(close(got_high[i], high[i], 0)) << describe(x);
      ASSERT_TRUE(close(got_low[i], low[i], 0)) << describe(x);
    }
  }
}

TEST(Reduce, MaxAndMinMatchReferenceForEveryLayout) {
  for (const DType dtype : kEveryDType) {
    const double low = dtype == DType::uint8 || dtype == DType::boolean ? 0 : -9;
    for (const Tensor& x : awkward_tensors(dtype, low, 9)) check_extremes(x);  // few values: many are equal in integers
    check_extremes(random_tensor({7, 3001}, dtype, 5, low, 9));                // several blocks of a row
    check_extremes(random_tensor({7, 6002}, dtype, 5, low, 9).slice(1, 0, 6002, 2));
  }
}

TEST(Reduce, MaxAndMinWithNanAndInfinities) {
  for (const DType dtype : kFloating) {
    check_extremes(
        Tensor::from<double>({1, kNan, 3, kNan, kInfinity, kInfinity, -kInfinity, -kInfinity, kNan}, {3, 3}).to(dtype));
    check_extremes(Tensor::full({2, 2000}, -kInfinity, {.dtype = dtype}));
    for (const std::int64_t place : {0, 31, 32, 1023, 1024, 1999}) {
      Tensor x = random_tensor({2, 2000}, dtype, 3);
      x.slice(1, place, place + 1).fill(kNan);
      check_extremes(x);
      check_extremes(x.transpose(0, 1).contiguous());
    }
  }
}

TEST(Reduce, Errors) {
  const Tensor x = Tensor::zeros({2, 3});
  TANDEM_EXPECT_ERROR(sum(x, {2}), "sum: no dimension 2 in a tensor of 2 dimensions");
  TANDEM_EXPECT_ERROR(mean(x, {1, -1}), "mean: dimension -1 of [2, 3] is named twice");
  TANDEM_EXPECT_ERROR(mean(Tensor::arange(3), {}), "mean: needs float32, float64 or bfloat16, got int64 [3]");
  TANDEM_EXPECT_ERROR(sum(Tensor(), {}), "sum: the tensor is undefined");
  TANDEM_EXPECT_ERROR(sum_to(x, {2}), "sum_to: [2] does not broadcast to [2, 3]");
  TANDEM_EXPECT_ERROR(sum_to(x, {1, 2, 3}), "sum_to: [1, 2, 3] does not broadcast to [2, 3]");
  TANDEM_EXPECT_ERROR(max(Tensor::zeros({2, 0}), 1), "max: dimension 1 of [2, 0] is empty");
  TANDEM_EXPECT_ERROR(argmax(x, 2), "argmax: no dimension 2");
  EXPECT_EQ(max(Tensor::zeros({0, 2}), 1).values.numel(), 0);
}

}  // namespace
}  // namespace tandem::core
