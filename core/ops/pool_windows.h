// What pooling windows see, one axis at a time: the same kernels serve plain and adaptive pooling.
#pragma once

#include <array>
#include <cstdint>

#include "tandem/core/tensor.h"

namespace tandem::core {

/// Pairs are (height, width).
struct Pool2dOptions {
  std::array<std::int64_t, 2> kernel{1, 1};
  std::array<std::int64_t, 2> stride{0, 0};   ///< 0: as the kernel
  std::array<std::int64_t, 2> padding{0, 0};  ///< at most half the kernel
  bool ceil_mode = false;                     ///< windows that hang over the end count too
};

/// Input places [begin, end) that one output place sees on this axis; `extent` is their number with the padding that
/// counts.
struct PoolSpan {
  std::int64_t begin, end, extent;
};

/// The windows along one axis as a formula, so that a kernel of any device finds each by its number.
struct PoolAxis {
  std::int64_t size = 0;                             ///< places of the input
  std::int64_t count = 0;                            ///< windows, which are places of the output
  std::int64_t kernel = 0, stride = 0, padding = 0;  ///< kernel 0: adaptive, `count` shares of the input
  bool padding_counts = true;                        ///< in PoolSpan::extent

  PoolSpan span(std::int64_t i) const;
  std::int64_t longest() const;
  /// No input place is seen twice.
  bool disjoint() const;
};

struct PoolWindows {
  PoolAxis rows, columns;

  /// Widest and highest window; position (p, q) inside a window has number p * widest() + q.
  std::int64_t widest() const { return columns.longest(); }
  std::int64_t highest() const { return rows.longest(); }
  bool disjoint() const { return rows.disjoint() && columns.disjoint(); }
};

/// The memory order in which `tensor` is pooled. An operator asks once and tells its kernel: a tensor with H = W = 1 is
/// in both orders, its copy or its gradient perhaps in one, so that asking twice gives two answers.
MemoryFormat pool_format(const Tensor& tensor);

/// Of an input [N, C, H, W]; sizes as in PyTorch. Throws naming `op` where options do not fit the shape.
PoolWindows pool_windows(const char* op, const Shape& x, const Pool2dOptions& options);

/// Output place i of n sees [floor(i * size / n), ceil((i + 1) * size / n)).
PoolWindows adaptive_windows(const char* op, const Shape& x, std::array<std::int64_t, 2> output);

}  // namespace tandem::core
