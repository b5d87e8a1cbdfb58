// Walking several tensors of one shape together, whatever their strides.
//
// A plan sorts dimensions so that the first operand (the output) is walked in memory order, and merges neighbours that
// lie without a gap in all operands. Tensors of the same dense layout, contiguous or channels-last, become one run.
#pragma once

#include <array>
#include <cstdint>

#include "tandem/core/parallel.h"
#include "tandem/core/tensor.h"

namespace tandem::core::cpu {

/// Elements below which a loop is not worth a second thread.
inline constexpr std::int64_t kGrain = 1 << 15;

/// Dimensions from the innermost outwards. Strides in elements; 0 where an operand is broadcast.
template <int N>
struct StridedPlan {
  int rank = 0;
  std::int64_t sizes[kMaxRank];
  std::int64_t strides[kMaxRank][N];
};

template <int N>
StridedPlan<N> make_plan(const Shape& shape, const std::array<const Strides*, N>& strides) {
  StridedPlan<N> plan;
  std::array<int, kMaxRank> order;
  int rank = 0;
  for (int i = shape.rank() - 1; i >= 0; --i)
    if (shape[i] != 1) order[static_cast<std::size_t>(rank++)] = i;
  // Insertion sort by the output's stride, then the next operand's: stable, and short.
  const auto closer = [&](int a, int b) {
    for (const Strides* s : strides)
      if ((*s)[a] != (*s)[b]) return (*s)[a] < (*s)[b];
    return false;
  };
  for (int i = 1; i < rank; ++i)
    for (int k = i; k > 0 && closer(order[static_cast<std::size_t>(k)], order[static_cast<std::size_t>(k - 1)]); --k)
      std::swap(order[static_cast<std::size_t>(k)], order[static_cast<std::size_t>(k - 1)]);
  for (int i = 0; i < rank; ++i) {
    const int dim = order[static_cast<std::size_t>(i)];
    bool merges = plan.rank > 0;
    for (int n = 0; n < N && merges; ++n)
      merges =
          (*strides[static_cast<std::size_t>(n)])[dim] == plan.strides[plan.rank - 1][n] * plan.sizes[plan.rank - 1];
    if (merges) {
      plan.sizes[plan.rank - 1] *= shape[dim];
      continue;
    }
    plan.sizes[plan.rank] = shape[dim];
    for (int n = 0; n < N; ++n) plan.strides[plan.rank][n] = (*strides[static_cast<std::size_t>(n)])[dim];
    ++plan.rank;
  }
  if (plan.rank == 0) {  // a scalar, or all sizes 1
    plan.rank = 1;
    plan.sizes[0] = 1;
    for (int n = 0; n < N; ++n) plan.strides[0][n] = 1;
  }
  return plan;
}

/// Calls run(offsets, count, strides) for every innermost run, in parallel: operand n's element i of the run lies at
/// offsets[n] + i * strides[n]. A single long run is split.
template <int N, class Run>
void for_each_run(const StridedPlan<N>& plan, Run&& run) {
  const std::int64_t inner = plan.sizes[0];
  std::int64_t rows = 1;
  for (int i = 1; i < plan.rank; ++i) rows *= plan.sizes[i];
  if (rows == 0 || inner == 0) return;
  if (rows == 1) {
    parallel_for(inner, kGrain, [&](std::int64_t begin, std::int64_t end) {
      std::array<std::int64_t, N> offsets;
      for (int n = 0; n < N; ++n) offsets[static_cast<std::size_t>(n)] = begin * plan.strides[0][n];
      run(offsets, end - begin, plan.strides[0]);
    });
    return;
  }
  parallel_for(rows, std::max<std::int64_t>(1, kGrain / inner), [&](std::int64_t begin, std::int64_t end) {
    std::array<std::int64_t, N> offsets{};
    std::array<std::int64_t, kMaxRank> index{};
    for (std::int64_t rest = begin, i = 1; i < plan.rank; ++i) {
      const auto d = static_cast<std::size_t>(i);
      index[d] = rest % plan.sizes[d];
      rest /= plan.sizes[d];
      for (int n = 0; n < N; ++n) offsets[static_cast<std::size_t>(n)] += index[d] * plan.strides[d][n];
    }
    for (std::int64_t row = begin; row < end; ++row) {
      run(offsets, inner, plan.strides[0]);
      for (int i = 1; i < plan.rank; ++i) {  // an odometer
        const auto d = static_cast<std::size_t>(i);
        for (int n = 0; n < N; ++n) offsets[static_cast<std::size_t>(n)] += plan.strides[d][n];
        if (++index[d] < plan.sizes[d]) break;
        for (int n = 0; n < N; ++n) offsets[static_cast<std::size_t>(n)] -= plan.sizes[d] * plan.strides[d][n];
        index[d] = 0;
      }
    }
  });
}

}  // namespace tandem::core::cpu
