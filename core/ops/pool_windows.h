// What pooling windows see, one axis at a time: the same kernels serve plain and adaptive pooling.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

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

struct PoolWindows {
  std::vector<PoolSpan> rows, columns;
  std::int64_t height = 0, width = 0;  ///< of the input

  /// Widest and highest window; position (p, q) inside a window has number p * widest() + q.
  std::int64_t widest() const;
  std::int64_t highest() const;
  /// No input place is seen twice.
  bool disjoint() const;
};

/// The memory order in which `tensor` is pooled. An operator asks once and tells its kernel: a tensor with H = W = 1 is
/// in both orders, its copy or its gradient perhaps in one, so that asking twice gives two answers.
MemoryFormat pool_format(const Tensor& tensor);

/// Of an input [N, C, H, W]; sizes as in PyTorch. Throws naming `op` where options do not fit the shape.
PoolWindows pool_windows(const char* op, const Shape& x, const Pool2dOptions& options);

/// Output place i of n sees [floor(i * size / n), ceil((i + 1) * size / n)).
PoolWindows adaptive_windows(const char* op, const Shape& x, std::array<std::int64_t, 2> output);

}  // namespace tandem::core
