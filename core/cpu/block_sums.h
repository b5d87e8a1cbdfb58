// Sums of runs of elements: blocks are added in chains side by side that the compiler keeps in vectors, their sums in a
// wider type, so that no chain of additions is long.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tandem/core/dtype.h"

namespace tandem::core::cpu {

/// Independent chains: two AVX-512 registers of float.
inline constexpr int kSumLanes = 32;
/// Elements of a run that are added before going to the wider type.
inline constexpr std::int64_t kSumBlock = 128 * kSumLanes;

/// Sum of f(x[i]), n <= kSumBlock: lane l adds the elements l, l + kSumLanes, ..., then the lanes are added as a tree.
template <class Lane, class T, class F>
Lane sum_block(const T* x, std::int64_t stride, std::int64_t n, F f) {
  using C = compute_t<T>;
  Lane lanes[kSumLanes] = {};
  const std::int64_t whole = n - n % kSumLanes;
  if (stride == 1) {
    for (std::int64_t i = 0; i < whole; i += kSumLanes)
      for (int l = 0; l < kSumLanes; ++l) lanes[l] += f(static_cast<Lane>(static_cast<C>(x[i + l])));
  } else {
    for (std::int64_t i = 0; i < whole; i += kSumLanes)
      for (int l = 0; l < kSumLanes; ++l) lanes[l] += f(static_cast<Lane>(static_cast<C>(x[(i + l) * stride])));
  }
  for (std::int64_t i = whole; i < n; ++i) lanes[i - whole] += f(static_cast<Lane>(static_cast<C>(x[i * stride])));
  for (int width = kSumLanes / 2; width > 0; width /= 2)
    for (int l = 0; l < width; ++l) lanes[l] += lanes[l + width];
  return lanes[0];
}

/// Of n neighbours, in double.
template <class T>
double sum_of_squares(const T* x, std::int64_t n) {
  double sum = 0;
  for (std::int64_t begin = 0; begin < n; begin += kSumBlock)
    sum += sum_block<double>(x + begin, 1, std::min(kSumBlock, n - begin), [](double v) { return v * v; });
  return sum;
}

}  // namespace tandem::core::cpu
