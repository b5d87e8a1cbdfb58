#include "tandem/core/cpu/bfloat16_layouts.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "tandem/core/cpu/gemm.h"
#include "tandem/core/parallel.h"

namespace tandem::core::cpu {
namespace {

constexpr std::int64_t kSide = 16;

// A square of 16 x 16 elements, a row in each vector.
template <class E>
struct Square {
  typedef E Row __attribute__((vector_size(kSide * sizeof(E))));
  Row rows[kSide] = {};

  // In steps, blocks of h x h change places across the diagonals of blocks twice as large.
  void transpose() {
    constexpr auto kLane = std::make_integer_sequence<int, kSide>();
    exchange<8>(kLane);
    exchange<4>(kLane);
    exchange<2>(kLane);
    exchange<1>(kLane);
  }

 private:
  template <int h, int... lane>
  void exchange(std::integer_sequence<int, lane...>) {
    constexpr Row upper{static_cast<E>(lane & h ? kSide + lane - h : lane)...};
    constexpr Row lower{static_cast<E>(lane & h ? kSide + lane : lane + h)...};
#pragma GCC unroll 16
    for (int i = 0; i < kSide; ++i) {
      if (i & h) continue;
      const Row a = rows[i], b = rows[i + h];
      rows[i] = __builtin_shuffle(a, b, upper);
      rows[i + h] = __builtin_shuffle(a, b, lower);
    }
  }
};

using Words = Vector<std::uint32_t>;

// 16 pairs of elements, as bfloat16.
Words load_pairs(const bfloat16* from) {
  Words pairs;
  std::memcpy(&pairs, from, sizeof(pairs));
  return pairs;
}
Words load_pairs(const float* from) {
  const std::array<HalfWords, 2> halves{bfloat16_bits(load_vector(from)), bfloat16_bits(load_vector(from + 16))};
  Words pairs;
  std::memcpy(&pairs, &halves, sizeof(pairs));
  return pairs;
}
// The same of n < 32 elements, and zeros.
template <class T>
Words load_pairs(const T* from, std::int64_t n) {
  T padded[kPanelRows] = {};
  std::copy_n(from, n, padded);
  return load_pairs(padded);
}

constexpr std::int64_t kPairs = kPanelRows / 2;
static_assert(kPairs == kSide);

// Panels from rows of adjacent elements: pairs of rows [begin, end) in all panels.
template <class T>
void pack_rows(const Matrix<const T>& b, std::int64_t begin, std::int64_t end, std::int64_t pairs, std::uint32_t* out) {
  const T zeros[kPanelColumns] = {};
  for (std::int64_t pair = begin; pair < end; ++pair) {
    const auto row = [&](std::int64_t r) { return r < b.rows ? b.data + r * b.row_stride : nullptr; };
    const T *lower = row(2 * pair), *upper = row(2 * pair + 1);
    for (std::int64_t column = 0; column < b.columns; column += kPanelColumns) {
      std::uint32_t* to = out + (column / kPanelColumns * pairs + pair) * kPanelColumns;
      const std::int64_t count = std::min(kPanelColumns, b.columns - column);
      T padded[2][kPanelColumns];
      const auto whole = [&](const T* from, T* room) -> const T* {
        if (from == nullptr) return zeros;
        if (count == kPanelColumns) return from + column;
        std::fill(std::copy_n(from + column, count, room), room + kPanelColumns, T{});
        return room;
      };
      const T *first = whole(lower, padded[0]), *second = whole(upper, padded[1]);
      for (std::int64_t c = 0; c < kPanelColumns; c += kSide) {
        const Words words = paired(bfloat16_bits(load_vector(first + c)), bfloat16_bits(load_vector(second + c)));
        std::memcpy(to + c, &words, sizeof(words));
      }
    }
  }
}

// One panel from columns of adjacent elements.
template <class T>
void pack_columns(const Matrix<const T>& b, std::int64_t panel, std::uint32_t* out) {
  for (std::int64_t first = 0; first < kPanelColumns; first += kSide)
    for (std::int64_t row = 0; row < b.rows; row += kPanelRows) {
      Square<std::uint32_t> square;
      const std::int64_t column = panel * kPanelColumns + first, rows = std::min(kPanelRows, b.rows - row);
      for (std::int64_t i = 0; i < std::min(kSide, b.columns - column); ++i) {
        const T* from = b.data + row + (column + i) * b.column_stride;
        square.rows[i] = rows == kPanelRows ? load_pairs(from) : load_pairs(from, rows);
      }
      square.transpose();
      for (std::int64_t i = 0; i < kSide; ++i)
        std::memcpy(out + (row / 2 + i) * kPanelColumns + first, &square.rows[i], sizeof(Words));
    }
}

template <class T>
void pack(const Tensor& given, bfloat16* packed) {
  const auto b = matrix_of<T>(given);
  const std::int64_t pairs = (b.rows + kPanelRows - 1) / kPanelRows * kPairs;
  const std::int64_t panels = (b.columns + kPanelColumns - 1) / kPanelColumns;
  auto* out = reinterpret_cast<std::uint32_t*>(packed);
  if (b.column_stride == 1 || b.columns == 1)
    return parallel_for(pairs, 64, [&](std::int64_t begin, std::int64_t end) { pack_rows(b, begin, end, pairs, out); });
  parallel_for(panels, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t panel = begin; panel < end; ++panel) pack_columns(b, panel, out + panel * pairs * kPanelColumns);
  });
}

}  // namespace

void pack_panels(const Tensor& b, bfloat16* packed) {
  b.dtype() == DType::float32 ? pack<float>(b, packed) : pack<bfloat16>(b, packed);
}

Tensor transposed_bfloat16(const Tensor& matrix) {
  constexpr std::int64_t kStrip = 32;  // columns that fill a line of the cache
  const auto from = matrix_of<bfloat16>(matrix);
  Tensor result = Tensor::empty({from.columns, from.rows}, matrix.options());
  bfloat16* out = result.mutable_data<bfloat16>();
  const auto move_square = [&](std::int64_t row, std::int64_t column) {
    Square<std::uint16_t> square;
    for (std::int64_t i = 0; i < kSide; ++i)
      std::memcpy(&square.rows[i], from.data + (row + i) * from.row_stride + column, sizeof(HalfWords));
    square.transpose();
    for (std::int64_t i = 0; i < kSide; ++i)
      std::memcpy(static_cast<void*>(out + (column + i) * from.rows + row), &square.rows[i], sizeof(HalfWords));
  };
  parallel_for((from.columns + kStrip - 1) / kStrip, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t first = begin * kStrip; first < std::min(end * kStrip, from.columns); first += kStrip)
      for (std::int64_t top = 0; top < from.rows; top += kStrip)
        for (std::int64_t row = top; row < std::min(top + kStrip, from.rows); row += kSide)
          for (std::int64_t column = first; column < std::min(first + kStrip, from.columns); column += kSide) {
            if (row + kSide <= from.rows && column + kSide <= from.columns) {
              move_square(row, column);
              continue;
            }
            for (std::int64_t r = row; r < std::min(row + kSide, from.rows); ++r)
              for (std::int64_t c = column; c < std::min(column + kSide, from.columns); ++c)
                out[c * from.rows + r] = from.data[r * from.row_stride + c];
          }
  });
  return result;
}

}  // namespace tandem::core::cpu
