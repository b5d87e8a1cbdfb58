// Dense matrix products on CPU: what matmul, linear and the unfolded convolutions stand on.
//
// Three ways, by size and type: own register tiles where a library call would cost more than the arithmetic, oneDNN's
// sgemm for float32, Eigen for float64. Whole matrices of bfloat16 go through oneDNN's primitives (onednn.h); the tiles
// take pairs of bfloat16 for operators that multiply inside (attention).
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "tandem/core/cpu/vectors.h"
#include "tandem/core/tensor.h"

namespace tandem::core::cpu {

/// A matrix in memory: element (i, k) lies at data[i * row_stride + k * column_stride].
template <class T>
struct Matrix {
  T* data;
  std::int64_t rows, columns;
  std::int64_t row_stride, column_stride;

  Matrix transposed() const { return {data, columns, rows, column_stride, row_stride}; }
};

/// The last two dimensions of `tensor`, at its first element.
template <class T>
Matrix<const T> matrix_of(const Tensor& tensor) {
  const int r = tensor.rank();
  return {tensor.data<T>(), tensor.shape()[r - 2], tensor.shape()[r - 1], tensor.strides()[r - 2],
          tensor.strides()[r - 1]};
}
template <class T>
Matrix<T> mutable_matrix_of(Tensor& tensor) {
  const int r = tensor.rank();
  return {tensor.mutable_data<T>(), tensor.shape()[r - 2], tensor.shape()[r - 1], tensor.strides()[r - 2],
          tensor.strides()[r - 1]};
}

/// True where the last two dimensions are rows without a step between elements, or columns without one: what BLAS can
/// take.
bool is_blas_matrix(const Tensor& tensor);
/// The same tensor where is_blas_matrix, else a contiguous copy.
Tensor as_blas_matrix(const Tensor& tensor);

/// out = a b, or out += a b. Every operand is a BLAS matrix. float and double. Uses the threads of the caller.
template <class T>
void gemm(const Matrix<const T>& a, const Matrix<const T>& b, const Matrix<T>& out, bool accumulate);

/// destination += source, of one shape: destination float32, float64 or bfloat16, source as destination or float32.
void add_into(const Tensor& source, Tensor& destination);

// Register tiles.

/// Two bfloat16 numbers that lie one after the other along the depth of a product: what a lane of the processor's dot
/// product takes at once.
struct Bfloat16Pair {
  std::uint32_t bits;  ///< the first in the lower half
};

/// sum += a row
template <class T, class A>
requires std::is_arithmetic_v<T>
[[gnu::always_inline]] inline void multiply_add(Vector<T>& sum, const A& a, const T* row) {
  sum += static_cast<T>(a) * load_vector(row);
}
/// For pairs, where the processor has no dot product of them.
[[gnu::always_inline]] inline void multiply_add_by_halves(Vector<float>& sum, std::uint32_t a,
                                                          const Vector<std::uint32_t>& row) {
  sum += std::bit_cast<float>(a << 16) * (Vector<float>)(row << 16);
  sum += std::bit_cast<float>(a & 0xffff0000u) * (Vector<float>)(row & 0xffff0000u);
}
[[gnu::always_inline]] inline void multiply_add(Vector<float>& sum, const Bfloat16Pair& a, const Bfloat16Pair* row) {
  std::uint32_t pair;  // by memcpy, since it may have been written as two numbers
  Vector<std::uint32_t> pairs;
  std::memcpy(&pair, &a, sizeof(pair));
  std::memcpy(&pairs, row, sizeof(pairs));
#ifdef __AVX512BF16__
  const __m512i repeated = _mm512_set1_epi32(static_cast<int>(pair));
  sum = (Vector<float>)_mm512_dpbf16_ps((__m512)sum, (__m512bh)repeated, (__m512bh)pairs);
#else
  multiply_add_by_halves(sum, pair, pairs);
#endif
}

/// Out (R x lanes) = or += A (R x depth, any strides) B (depth x lanes, rows b_stride apart). `columns` of the lanes
/// are stored. A and B may be pairs of bfloat16, whose depth, strides and lanes then count pairs.
template <int R, class T, class A, class B>
void tile(std::int64_t depth, const A* a, std::int64_t a_row, std::int64_t a_column, const B* b, std::int64_t b_stride,
          T* out, std::int64_t out_row, std::int64_t columns, bool accumulate) {
  Vector<T> sum[R];
  for (int r = 0; r < R; ++r) sum[r] = Vector<T>{};
  for (std::int64_t k = 0; k < depth; ++k) {
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) multiply_add(sum[r], a[r * a_row + k * a_column], b + k * b_stride);
  }
  if (columns == kLanes<T>) {
    for (int r = 0; r < R; ++r) {
      if (accumulate) sum[r] += load_vector(out + r * out_row);
      store_vector(sum[r], out + r * out_row);
    }
    return;
  }
  for (int r = 0; r < R; ++r)
    for (std::int64_t c = 0; c < columns; ++c) {
      T* place = out + r * out_row + c;
      *place = accumulate ? *place + sum[r][c] : sum[r][c];
    }
}

/// tile() over any number of rows.
template <class T, class A, class B>
void tile_rows(std::int64_t rows, std::int64_t depth, const A* a, std::int64_t a_row, std::int64_t a_column, const B* b,
               std::int64_t b_stride, T* out, std::int64_t out_row, std::int64_t columns, bool accumulate) {
  const auto run = [&]<int R>() {
    tile<R>(depth, a, a_row, a_column, b, b_stride, out, out_row, columns, accumulate);
    a += R * a_row;
    out += R * out_row;
    rows -= R;
  };
  while (rows >= 16 || rows == 8) run.template operator()<8>();
  if (rows > 8) rows >= 12 ? run.template operator()<12>() : run.template operator()<9>();
  if (rows >= 4) run.template operator()<4>();
  while (rows > 0) rows >= 2 ? run.template operator()<2>() : run.template operator()<1>();
}

/// Floats of B, padded to whole vectors, that small_gemm keeps on the stack.
inline constexpr std::int64_t kSmallPanel = 4096;

/// True where a product is best done by small_gemm: then a call to a library would cost more than it saves.
inline bool is_small_gemm(std::int64_t m, std::int64_t n, std::int64_t k) {
  return m * n * k <= (1 << 18) && k * ((n + 15) / 16 * 16) <= kSmallPanel;
}

/// out = or += a b, for any strides; In is float, double or bfloat16, T the type of arithmetic. `out` has column
/// stride 1.
template <class T, class In>
void small_gemm(const Matrix<const In>& a, const Matrix<const In>& b, const Matrix<T>& out, bool accumulate) {
  alignas(64) T panel[kSmallPanel];
  const std::int64_t depth = a.columns;
  for (std::int64_t column = 0; column < b.columns; column += kLanes<T>) {
    const std::int64_t columns = std::min(kLanes<T>, b.columns - column);
    const In* from = b.data + column * b.column_stride;
    if (std::is_same_v<T, In> && b.column_stride == 1 && columns == kLanes<T>) {
      if constexpr (std::is_same_v<T, In>)
        tile_rows(a.rows, depth, a.data, a.row_stride, a.column_stride, from, b.row_stride, out.data + column,
                  out.row_stride, columns, accumulate);
      continue;
    }
    for (std::int64_t k = 0; k < depth; ++k) {
      for (std::int64_t c = 0; c < columns; ++c)
        panel[k * kLanes<T> + c] = static_cast<T>(from[k * b.row_stride + c * b.column_stride]);
      for (std::int64_t c = columns; c < kLanes<T>; ++c) panel[k * kLanes<T> + c] = 0;
    }
    tile_rows(a.rows, depth, a.data, a.row_stride, a.column_stride, panel, kLanes<T>, out.data + column, out.row_stride,
              columns, accumulate);
  }
}

}  // namespace tandem::core::cpu
