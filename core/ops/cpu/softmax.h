// What the kernels of softmax and cross-entropy share: the exponential, sums of rows, and how a dense tensor is seen as
// [outer, size, inner] around one dimension.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "tandem/core/cpu/blocks.h"
#include "tandem/core/tensor.h"

namespace tandem::core::cpu {

/// exp(x) to 2 ulp for x <= 0 (and up to 80), written so that loops over it use vector registers. Results below the
/// smallest normal number are 0; NaN stays NaN. Source: x = n ln 2 + r, exp(x) = 2^n exp(r), and Taylor's series for
/// |r| <= ln(2) / 2.
inline float exp_nonpositive(float x) {
  constexpr float kMagic = 0x1.8p23f;  // adding it rounds to an integer, which then stands in the low bits
  const float shifted = x * 1.44269504f + kMagic;
  const float n = shifted - kMagic;
  const float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;  // ln 2 in two parts, the first exact in few bits
  const float p =
      1 + r * (1 + r * (1.f / 2 + r * (1.f / 6 + r * (1.f / 24 + r * (1.f / 120 + r * (1.f / 720 + r / 5040))))));
  const float power = std::bit_cast<float>((std::bit_cast<std::uint32_t>(shifted) << 23) + 0x3f800000u);
  return x < -87.f ? 0.f : p * power;
}

inline double exp_nonpositive(double x) {
  constexpr double kMagic = 0x1.8p52;
  const double shifted = x * 1.4426950408889634 + kMagic;
  const double n = shifted - kMagic;
  const double r = (x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
  double p = 1. / 6227020800;  // 1 / 13!
  constexpr double kInverseFactorials[] = {
      1. / 479001600, 1. / 39916800, 1. / 3628800, 1. / 362880, 1. / 40320, 1. / 5040, 1. / 720,
      1. / 120,       1. / 24,       1. / 6,       1. / 2,      1.,         1.};
#pragma GCC unroll 13
  for (const double c : kInverseFactorials) p = p * r + c;
  const double power = std::bit_cast<double>((std::bit_cast<std::uint64_t>(shifted) << 52) + 0x3ff0000000000000u);
  return x < -708. ? 0. : p * power;
}

/// The largest of n values, -inf of none. NaN may be passed over: the sum of exponentials finds it.
template <class T>
compute_t<T> row_max(const T* x, std::int64_t n) {
  using C = compute_t<T>;
  constexpr int kLanes = 32;
  C best = -std::numeric_limits<C>::infinity();
  for_each_block(n, [&](std::int64_t begin, std::int64_t count) {
    C buffer[kRowBlock];
    const C* v = load_block(x + begin, count, buffer);
    std::int64_t i = 0;
    if (count >= kLanes) {
      C lanes[kLanes];
      std::fill_n(lanes, kLanes, best);
      for (; i + kLanes <= count; i += kLanes) {
#pragma GCC ivdep
        for (int lane = 0; lane < kLanes; ++lane) lanes[lane] = v[i + lane] > lanes[lane] ? v[i + lane] : lanes[lane];
      }
      for (const C value : lanes) best = value > best ? value : best;
    }
    for (; i < count; ++i) best = v[i] > best ? v[i] : best;
  });
  return best;
}

/// Short ones first: what ends a vector loop would cost more than their sum.
template <class C>
[[gnu::always_inline]] inline C block_sum(const C* a, std::int64_t n) {
  if (n < 32) {
    C sums[4] = {};
    std::int64_t i = 0;
    for (; i + 4 <= n; i += 4)
      for (int k = 0; k < 4; ++k) sums[k] += a[i + k];
    for (; i < n; ++i) sums[0] += a[i];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }
  C sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i) sum += a[i];
  return sum;
}

template <class C>
C block_dot(const C* a, const C* b, std::int64_t n) {
  C sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

/// sum over i of exp(x_i - max), and block(begin, exponentials, count) for each block of them.
template <class T, class Block>
double row_exp_sum(const T* x, compute_t<T> max, std::int64_t n, Block&& block) {
  using C = compute_t<T>;
  double total = 0;
  for_each_block(n, [&](std::int64_t begin, std::int64_t count) {
    C e[kRowBlock];
    for (std::int64_t i = 0; i < count; ++i) e[i] = exp_nonpositive(static_cast<C>(x[begin + i]) - max);
    total += static_cast<double>(block_sum(e, count));
    block(begin, static_cast<const C*>(e), count);
  });
  return total;
}

/// What log_softmax subtracts from a row's elements, in two steps that keep precision where the maximum is large.
template <class C>
struct LogNormalizer {
  C max;
  C log_sum;  ///< of exp(x - max)
  C operator()(C x) const { return (x - max) - log_sum; }
};

template <class T>
LogNormalizer<compute_t<T>> log_normalizer(const T* x, std::int64_t n) {
  using C = compute_t<T>;
  const C max = row_max(x, n);
  const double sum = row_exp_sum(x, max, n, [](std::int64_t, const C*, std::int64_t) {});
  return {max, std::log(static_cast<C>(sum))};
}

/// A dense tensor around dimension `dim`: element (o, d, i) lies at (o * size + d) * inner + i. Dimensions in between
/// keep their order in memory, whichever that is.
struct AroundDim {
  std::int64_t outer, size, inner;

  AroundDim(const Tensor& dense, int dim) {
    const std::int64_t n = dense.numel();
    size = dense.rank() == 0 ? 1 : dense.shape()[dim];
    inner = size == 1 ? n : dense.strides()[dim];
    outer = n / (size * inner);
  }
};

}  // namespace tandem::core::cpu
