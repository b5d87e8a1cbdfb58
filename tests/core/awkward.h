// Tensors of every awkward shape and layout, and how operators' results are compared with naive references in float64.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tandem/core/ops/random_fill.h"
#include "tandem/core/parallel.h"
#include "tandem/core/tensor.h"
#include "tests/errors.h"

namespace tandem::core::testing {

inline constexpr DType kFloating[] = {DType::float32, DType::float64, DType::bfloat16};
inline constexpr DType kEveryDType[] = {DType::float32, DType::float64, DType::bfloat16, DType::float16,
                                        DType::int64,   DType::int32,   DType::uint8,    DType::boolean};
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// ---- Values. All of these are contiguous.

/// Uniform in [low, high), rounded to `dtype`.
inline Tensor random_tensor(const Shape& shape, DType dtype, std::uint64_t seed = 1, double low = -2, double high = 2) {
  Tensor values = Tensor::empty(shape, {.dtype = DType::float64});
  fill_uniform(values, low, high, RandomContext{.seed = seed}.stream(1));
  return values.to(dtype);
}

/// In [-1, 1], and such that bfloat16 can hold them, so that all dtypes compute with the same inputs.
inline Tensor numbers(const Shape& shape, DType dtype, std::uint64_t seed = 1) {
  return random_tensor(shape, DType::bfloat16, seed, -1, 1).to(dtype);
}

inline Tensor normal(const Shape& shape, std::uint32_t stream, DType dtype = DType::float64, double mean = 0,
                     double deviation = 1) {
  Tensor values = Tensor::empty(shape, {.dtype = DType::float64});
  fill_normal(values, mean, deviation, RandomContext{.seed = 11}.stream(stream));
  return values.to(dtype);
}

/// 0, 1, 2, ...
inline Tensor counting(const Shape& shape, DType dtype = DType::float32) {
  return Tensor::arange(numel(shape), DType::float32).reshape(shape).to(dtype);
}

/// int64, element i = f(i).
template <class F>
Tensor integers(const Shape& shape, F&& f) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(numel(shape)));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = f(static_cast<std::int64_t>(i));
  return Tensor::from(values, shape);
}

// ---- Layouts: the same values in other memory. What lies between and beside them is NaN where the dtype has one.

inline Tensor poison(const Shape& shape, DType dtype) {
  return Tensor::full(shape, is_floating(dtype) ? kNan : 99, {.dtype = dtype});
}

/// Dimensions `a` and `b` have changed places in memory.
inline Tensor exchanged(const Tensor& x, int a, int b) { return x.transpose(a, b).contiguous().transpose(a, b); }

/// Every second place along `dim`, from the second one.
inline Tensor with_gaps(const Tensor& x, int dim) {
  const std::int64_t size = x.size(dim);
  Shape wide = x.shape();
  wide[normalize_dim("with_gaps", dim, x.rank())] = 2 * size;
  return poison(wide, x.dtype()).slice(dim, std::min<std::int64_t>(1, size), 2 * size, 2).copy_from(x);
}

enum class Layout { contiguous, channels_last, transposed, stepped, stepped_channels, offset };
inline const std::vector<Layout> kLayouts{Layout::contiguous, Layout::channels_last, Layout::transposed,
                                          Layout::stepped, Layout::offset};
/// Of images (N, C, H, W): steps between channels tell memory orders apart if H = W = 1.
inline const std::vector<Layout> kImageLayouts{Layout::contiguous, Layout::channels_last,    Layout::transposed,
                                               Layout::stepped,    Layout::stepped_channels, Layout::offset};

/// `x` itself where the layout needs more dimensions than it has.
inline Tensor laid_out(const Tensor& x, Layout layout) {
  const int rank = x.rank();
  switch (layout) {
    case Layout::contiguous: return x;
    case Layout::channels_last: return rank == 4 ? x.contiguous(MemoryFormat::channels_last) : x;
    case Layout::transposed: return rank < 2 ? x : exchanged(x, -1, -2);
    case Layout::stepped: return rank < 1 ? x : with_gaps(x, -1);
    case Layout::stepped_channels: return rank < 2 ? x : with_gaps(x, 1);
    case Layout::offset: {
      if (rank < 1) return x;
      Shape longer = x.shape();
      longer[0] += 2;
      return poison(longer, x.dtype()).slice(0, 1, longer[0] - 1).copy_from(x);
    }
  }
  return x;
}

/// x itself, with dimensions 0 and `other` exchanged, with gaps along `gaps`, and channels-last.
inline std::vector<Tensor> layouts(const Tensor& x, int other, int gaps) {
  if (x.rank() == 0) return {x};
  std::vector<Tensor> all{x, exchanged(x, 0, other), with_gaps(x, gaps)};
  if (x.rank() == 4) all.push_back(x.contiguous(MemoryFormat::channels_last));
  return all;
}

/// Scalars, empty ones, contiguous, transposed, sliced, stepped, repeated, channels-last, and one large enough for two
/// threads.
inline std::vector<Tensor> awkward_tensors(DType dtype, double low = -2, double high = 2) {
  std::uint64_t seed = 10;
  const auto make = [&](const Shape& shape) { return random_tensor(shape, dtype, ++seed, low, high); };
  return {make({}),
          make({1}),
          make({0}),
          make({3, 0, 2}),
          make({7}),
          make({37}).slice(0, 3, 36, 2),
          make({1, 1, 5}),
          make({5, 67}),
          make({67, 5}).transpose(0, 1),
          make({6, 40}).slice(1, 3, 38),
          make({6, 40}).slice(0, 1, 6, 2).slice(1, 0, 40, 3),
          make({4, 1}).expand({4, 9}),
          make({9}).expand({3, 9}),
          make({2, 3, 4, 5}),
          make({2, 3, 4, 5}).contiguous(MemoryFormat::channels_last),
          make({2, 33, 3, 5}).contiguous(MemoryFormat::channels_last).slice(1, 1, 32),
          make({2, 3, 4, 5}).permute({3, 0, 2, 1}),
          make({2, 1, 3, 2, 1, 2}),
          make({300, 257})};
}

inline std::string describe(const Tensor& x) {
  return std::string(name(x.dtype())) + " " + x.shape().str() + " strides " + x.strides().str();
}

// ---- Comparison.

inline std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// Flat index into `from` of what stands at flat index `i` of `to` after broadcasting.
inline std::size_t broadcast_index(std::int64_t i, const Shape& from, const Shape& to) {
  std::int64_t index = 0, weight = 1;
  for (int d = to.rank() - 1; d >= 0; --d) {
    const std::int64_t here = i % to[d];
    i /= to[d];
    const int own = d - (to.rank() - from.rank());
    if (own < 0) continue;
    if (from[own] != 1) index += here * weight;
    weight *= from[own];
  }
  return at(index);
}

/// Relative spacing of numbers of a dtype.
inline double epsilon(DType dtype) {
  if (dtype == DType::bfloat16) return 0x1p-8;
  return dtype == DType::float32 ? 0x1p-23 : 0x1p-52;
}

/// Both NaN, the same infinity, or no further apart than `tolerance`.
inline bool close(double got, double wanted, double tolerance) {
  if (std::isnan(wanted)) return std::isnan(got);
  if (std::isinf(wanted) || std::isinf(got)) return got == wanted;
  return std::abs(got - wanted) <= tolerance;
}

/// Expects each element to be within tolerance(what is wanted).
template <class Tolerance>
void expect_within(const Tensor& got, const std::vector<double>& wanted, const std::string& what,
                   Tolerance&& tolerance) {
  const auto values = got.to_vector<double>();
  ASSERT_EQ(values.size(), wanted.size()) << what;
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_NEAR(values[i], wanted[i], tolerance(wanted[i])) << what << " at " << i << " of " << got.shape().str();
}

/// Relative to what is wanted, or to 1 where that is smaller.
inline void expect_near(const Tensor& got, const std::vector<double>& wanted, double tolerance,
                        const std::string& what) {
  expect_within(got, wanted, what, [&](double value) { return tolerance * std::max(1., std::abs(value)); });
}

/// By the dtype's precision; `scale` is the size of the sums that were made: what rounding is relative to.
inline void expect_close(const Tensor& got, const std::vector<double>& wanted, double scale, const std::string& what) {
  const double unit = got.dtype() == DType::float64 ? 1e-13 : got.dtype() == DType::float32 ? 2e-6 : 8e-3;
  expect_within(got, wanted, what, [&](double value) { return unit * (scale + std::abs(value)); });
}

/// What `f` returns when it may use that many threads.
template <class F>
auto with_threads(int threads, F&& f) {
  const int before = num_threads();
  set_num_threads(threads);
  auto result = f();
  set_num_threads(before);
  return result;
}

}  // namespace tandem::core::testing
