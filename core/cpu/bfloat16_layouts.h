// Layouts of bfloat16 matrices that oneDNN's products want. Its own reorders take 1.3 to 5 times as long
// (docs/speed.md), but for packing the columns of a matrix as wide as a vocabulary, which they do in 0.8 of the time.
#pragma once

#include "tandem/core/tensor.h"

namespace tandem::core::cpu {

/// The transpose, contiguous, of a bfloat16 matrix whose elements of a row are adjacent in memory.
Tensor transposed_bfloat16(const Tensor& matrix);

/// Columns of a panel, and what rows are filled up to with zeros.
inline constexpr std::int64_t kPanelColumns = 64, kPanelRows = 32;

/// b [K, N], float32 or bfloat16, in panels of 64 columns that hold pairs of rows: [N / 64][K / 2][64][2], rounded, and
/// zero beyond b. One of b's strides is 1, or N is 1. oneDNN calls it BA16a64b2a, K filled up to 32 rows.
void pack_panels(const Tensor& b, bfloat16* packed);

}  // namespace tandem::core::cpu
