// Channels-last and contiguous tensors as one thing for pooling: `outer` planes of H x W places with `inner` adjacent
// values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tandem/core/ops/pool_windows.h"
#include "tandem/core/parallel.h"
#include "tandem/core/tensor.h"

namespace tandem::core::cpu {

struct Planes {
  std::int64_t outer, inner;
};

/// (N, C) in channels-last order, (N * C, 1) in contiguous order.
inline Planes planes_of(const Shape& shape, MemoryFormat format) {
  const std::int64_t n = shape[0], c = shape[1];
  return format == MemoryFormat::channels_last ? Planes{n, c} : Planes{n * c, 1};
}

/// All windows, looked up by number.
struct WindowTable {
  explicit WindowTable(const PoolWindows& windows)
      : rows(spans_of(windows.rows)),
        columns(spans_of(windows.columns)),
        height(windows.rows.size),
        width(windows.columns.size) {}

  std::vector<PoolSpan> rows, columns;
  std::int64_t height, width;  // of the input

 private:
  static std::vector<PoolSpan> spans_of(const PoolAxis& axis) {
    std::vector<PoolSpan> spans;
    spans.reserve(static_cast<std::size_t>(axis.count));
    for (std::int64_t i = 0; i < axis.count; ++i) spans.push_back(axis.span(i));
    return spans;
  }
};

/// Values handled together: their running results stay in registers.
inline constexpr std::int64_t kPoolBlock = 32;

/// Calls f.template operator()<bool full>(first, count) for blocks of the inner values; a full block's count is a
/// constant.
template <class F>
void for_each_block(std::int64_t inner, F&& f) {
  std::int64_t c = 0;
  for (; c + kPoolBlock <= inner; c += kPoolBlock) f.template operator()<true>(c, kPoolBlock);
  if (c < inner) f.template operator()<false>(c, inner - c);
}

/// Calls f(plane, i, j) for every output place, in parallel over rows of the output; `work` values are read per place.
template <class F>
void for_each_window(const Planes& planes, const WindowTable& windows, F&& f) {
  const std::int64_t oh = std::ssize(windows.rows), ow = std::ssize(windows.columns);
  const std::int64_t row_values = planes.inner * windows.height * windows.width / oh + 1;
  parallel_for(planes.outer * oh, std::max<std::int64_t>(1, 32768 / row_values),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t row = begin; row < end; ++row)
                   for (std::int64_t j = 0; j < ow; ++j) f(row / oh, row % oh, j);
               });
}

/// A gradient of disjoint windows, each element of dx written once, in memory order: give(to, plane, i, j, h, w) writes
/// the `inner` values at input place (h, w) of window (i, j); places that no window sees become zero.
template <class T, class Give>
void scatter_disjoint(const Planes& planes, const WindowTable& windows, T* dx, Give&& give) {
  const std::int64_t oh = std::ssize(windows.rows), row_values = windows.width * planes.inner;
  const auto zero = [&](T* row, std::int64_t from, std::int64_t to) {
    if (from < to) std::fill(row + from * planes.inner, row + to * planes.inner, T{});
  };
  parallel_for(planes.outer * oh, std::max<std::int64_t>(1, 32768 / (row_values + 1)),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t k = begin; k < end; ++k) {
                   const std::int64_t plane = k / oh, i = k % oh;
                   T* image = dx + plane * windows.height * row_values;
                   const PoolSpan& rows = windows.rows[static_cast<std::size_t>(i)];
                   const std::int64_t before = i == 0 ? 0 : windows.rows[static_cast<std::size_t>(i - 1)].end;
                   std::fill(image + before * row_values, image + std::max(before, rows.begin) * row_values, T{});
                   for (std::int64_t h = rows.begin; h < rows.end; ++h) {
                     T* row = image + h * row_values;
                     std::int64_t w = 0;
                     for (std::int64_t j = 0; j < std::ssize(windows.columns); ++j) {
                       const PoolSpan& columns = windows.columns[static_cast<std::size_t>(j)];
                       zero(row, w, columns.begin);
                       for (w = columns.begin; w < columns.end; ++w) give(row + w * planes.inner, plane, i, j, h, w);
                     }
                     zero(row, w, windows.width);
                   }
                   if (i == oh - 1) std::fill(image + rows.end * row_values, image + windows.height * row_values, T{});
                 }
               });
}

/// A gradient of overlapping windows, summed plane by plane: add(to, plane, i, j, h, w) adds to the `inner` sums at
/// place (h, w).
template <class T, class Add>
void scatter_overlapping(const Planes& planes, const WindowTable& windows, T* dx, Add&& add) {
  using Sum = compute_t<T>;
  const std::int64_t image = windows.height * windows.width * planes.inner;
  parallel_for(planes.outer, std::max<std::int64_t>(1, 32768 / image), [&](std::int64_t begin, std::int64_t end) {
    std::vector<Sum> scratch;  // sums of a 16-bit type are made in float
    if constexpr (!std::is_same_v<T, Sum>) scratch.resize(static_cast<std::size_t>(image));
    for (std::int64_t plane = begin; plane < end; ++plane) {
      Sum* sums;
      if constexpr (std::is_same_v<T, Sum>) {
        sums = dx + plane * image;
      } else {
        sums = scratch.data();
      }
      std::fill_n(sums, image, Sum{0});
      for (std::int64_t i = 0; i < std::ssize(windows.rows); ++i)
        for (std::int64_t j = 0; j < std::ssize(windows.columns); ++j) {
          const PoolSpan &rows = windows.rows[static_cast<std::size_t>(i)],
                         &columns = windows.columns[static_cast<std::size_t>(j)];
          for (std::int64_t h = rows.begin; h < rows.end; ++h)
            for (std::int64_t w = columns.begin; w < columns.end; ++w)
              add(sums + (h * windows.width + w) * planes.inner, plane, i, j, h, w);
        }
      if constexpr (!std::is_same_v<T, Sum>)
        for (std::int64_t k = 0; k < image; ++k) dx[plane * image + k] = static_cast<T>(sums[k]);
    }
  });
}

}  // namespace tandem::core::cpu
