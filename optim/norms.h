// Norms of whole parameters, for rates that depend on them: one parallel pass over all, with the same bits for any
// number of threads.
#pragma once

#include <array>
#include <cmath>
#include <vector>

#include "tandem/optim/segments.h"

namespace tandem::optim {

/// In double, in chains side by side that the compiler can keep in vectors.
template <class T>
double sum_of_squares(const T* x, std::int64_t n) {
  constexpr std::int64_t kLanes = 16;
  double lanes[kLanes] = {};
  const std::int64_t whole = n - n % kLanes;
  const auto add = [&](std::int64_t lane, T value) {
    lanes[lane] += static_cast<double>(value) * static_cast<double>(value);
  };
  for (std::int64_t i = 0; i < whole; i += kLanes)
    for (std::int64_t l = 0; l < kLanes; ++l) add(l, x[i + l]);
  for (std::int64_t i = whole; i < n; ++i) add(i - whole, x[i]);
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

/// For each segment the sum of what kernel(segment, begin, end) returns, two numbers, over pieces that cover it once.
/// Pieces do not depend on the number of threads, and are added in order.
template <class Segment, class Kernel>
std::vector<std::array<double, 2>> sum_pieces(const std::vector<Segment>& segments, Kernel&& kernel) {
  constexpr std::int64_t kPiece = 1 << 14;
  struct Piece {
    std::size_t segment;
    std::int64_t begin, end;
    std::array<double, 2> sums;
  };
  std::vector<Piece> pieces;
  std::int64_t total = 0;
  for (std::size_t s = 0; s < segments.size(); ++s) {
    const std::int64_t count = segments[s].count;
    for (std::int64_t begin = 0; begin < count; begin += kPiece)
      pieces.push_back({s, begin, std::min(count, begin + kPiece), {}});
    total += count;
  }
  const std::int64_t n = std::ssize(pieces);
  core::parallel_for(n, total > kPiece ? 1 : n, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      Piece& piece = pieces[static_cast<std::size_t>(i)];
      piece.sums = kernel(segments[piece.segment], piece.begin, piece.end);
    }
  });
  std::vector<std::array<double, 2>> sums(segments.size());
  for (const Piece& piece : pieces)
    for (std::size_t k = 0; k < 2; ++k) sums[piece.segment][k] += piece.sums[k];
  return sums;
}

}  // namespace tandem::optim
