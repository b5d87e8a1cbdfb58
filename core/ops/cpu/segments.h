// One parallel pass over many arrays.
//
// A pass walks its arrays as if they lay one behind the other, and splits that walk evenly over the threads. What it
// walks is a vector of anything with a `count`, the number of its elements.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "tandem/core/ops/segment.h"
#include "tandem/core/parallel.h"

namespace tandem::core::cpu {

/// A segment as flat arrays. Null: no such state.
template <class T>
struct FlatSegment {
  explicit FlatSegment(Segment& s)
      : parameter(s.parameter.mutable_data<T>()), gradient(s.gradient.data<T>()), count(s.parameter.numel()) {
    for (std::size_t k = 0; k < state.size(); ++k)
      state[k] = s.state[k].defined() ? s.state[k].mutable_data<T>() : nullptr;
  }

  T* parameter;
  const T* gradient;
  std::array<T*, 2> state;
  std::int64_t count;
};

/// make(segment) of the segments of dtype T.
template <class T, class S, class Make>
auto flatten(std::span<S> segments, Make&& make) {
  std::vector<decltype(make(segments[0]))> flat;
  for (S& segment : segments) {
    if (segment.parameter.dtype() != dtype_of<T>) continue;
    if (flat.empty()) flat.reserve(segments.size());
    flat.push_back(make(segment));
  }
  return flat;
}

/// Elements below which a pass is not worth a second thread.
inline constexpr std::int64_t kPassGrain = 1 << 14;

template <class Array>
std::int64_t total_count(const std::vector<Array>& arrays) {
  std::int64_t total = 0;
  for (const Array& array : arrays) total += array.count;
  return total;
}

/// Calls kernel(array, begin, end) on pieces that cover all elements of all arrays once. Elementwise work only: where
/// pieces begin depends on the number of threads.
template <class Array, class Kernel>
void for_each_piece(const std::vector<Array>& arrays, Kernel&& kernel) {
  parallel_for(total_count(arrays), kPassGrain, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t first = 0;  // where the array starts in the walk
    for (const Array& array : arrays) {
      const std::int64_t from = std::max(begin - first, std::int64_t{0}), to = std::min(end - first, array.count);
      if (from < to) kernel(array, from, to);
      first += array.count;
    }
  });
}

/// For each array the sum of what kernel(array, begin, end) returns, N numbers, over pieces that cover it once. Pieces
/// do not depend on the number of threads, and are added in order.
template <std::size_t N, class Array, class Kernel>
std::vector<std::array<double, N>> sum_pieces(const std::vector<Array>& arrays, Kernel&& kernel) {
  constexpr std::int64_t kPiece = 1 << 16;
  struct Piece {
    std::size_t array;
    std::int64_t begin, end;
    std::int64_t first;  // where it starts in the walk
    std::array<double, N> sums;
  };
  std::vector<Piece> pieces;
  std::int64_t total = 0;
  for (std::size_t a = 0; a < arrays.size(); ++a) {
    const std::int64_t count = arrays[a].count;
    for (std::int64_t begin = 0; begin < count; begin += kPiece)
      pieces.push_back({a, begin, std::min(count, begin + kPiece), total + begin, {}});
    total += count;
  }
  // A piece belongs to the thread in whose part of the walk it starts, so that threads get as many elements, not as
  // many pieces.
  parallel_for(total, kPassGrain, [&](std::int64_t begin, std::int64_t end) {
    const auto starts_before = [](const Piece& piece, std::int64_t place) { return piece.first < place; };
    auto piece = std::lower_bound(pieces.begin(), pieces.end(), begin, starts_before);
    for (; piece != pieces.end() && piece->first < end; ++piece)
      piece->sums = kernel(arrays[piece->array], piece->begin, piece->end);
  });
  std::vector<std::array<double, N>> sums(arrays.size());
  for (const Piece& piece : pieces)
    for (std::size_t k = 0; k < N; ++k) sums[piece.array][k] += piece.sums[k];
  return sums;
}

}  // namespace tandem::core::cpu
