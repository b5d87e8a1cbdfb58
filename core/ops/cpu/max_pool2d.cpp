#include "tandem/core/ops/max_pool2d.h"

#include <type_traits>

#include "tandem/core/ops/cpu/pool_planes.h"

namespace tandem::core::kernels {
using namespace cpu;
namespace {

// An integer as wide as the values, so that comparison and choice fill whole vectors.
template <class Sum>
using Position = std::conditional_t<sizeof(Sum) == 8, std::int64_t, std::int32_t>;

// What is only moved, not computed with: the compiler makes vectors of integers, not of structures.
template <class T>
using BitsOf = std::conditional_t<std::is_same_v<T, bfloat16>, std::uint16_t, T>;

// Maximum of one window for `count` adjacent values, from `x` on, which points to place (0, 0) of the plane.
template <bool full, class T, class Index>
void window_maximum(const WindowTable& windows, const PoolSpan& rows, const PoolSpan& columns, std::int64_t inner,
                    std::int64_t pitch, const T* x, std::int64_t given, T* output, Index* indices) {
  using Sum = compute_t<T>;
  const std::int64_t count = full ? kPoolBlock : given;
  Sum best[kPoolBlock];
  Position<Sum> where[kPoolBlock];
  const T* first = x + (rows.begin * windows.width + columns.begin) * inner;
  for (std::int64_t c = 0; c < count; ++c) {
    best[c] = static_cast<Sum>(first[c]);
    where[c] = 0;
  }
  for (std::int64_t h = rows.begin; h < rows.end; ++h)
    for (std::int64_t w = columns.begin; w < columns.end; ++w) {
      const auto position = static_cast<Position<Sum>>((h - rows.begin) * pitch + w - columns.begin);
      const T* from = x + (h * windows.width + w) * inner;
      for (std::int64_t c = 0; c < count; ++c) {
        const Sum value = static_cast<Sum>(from[c]);
        // Bitwise or, so that nothing branches; the second half is true for NaN only.
        const bool better = static_cast<int>(value > best[c]) | static_cast<int>(value != value);
        best[c] = better ? value : best[c];
        where[c] = better ? position : where[c];
      }
    }
  for (std::int64_t c = 0; c < count; ++c) output[c] = static_cast<T>(best[c]);
  for (std::int64_t c = 0; c < count; ++c) indices[c] = static_cast<Index>(where[c]);
}

template <class F>
void visit_index(DType dtype, F&& f) {
  dtype == DType::uint8 ? f.template operator()<std::uint8_t>() : f.template operator()<std::int32_t>();
}

template <class T, class Index>
void forward(const Tensor& x, const PoolWindows& pooling, MemoryFormat format, Tensor& output, Tensor& indices) {
  const WindowTable windows(pooling);
  const Planes planes = planes_of(x.shape(), format);
  const std::int64_t pitch = pooling.widest(), oh = std::ssize(windows.rows), ow = std::ssize(windows.columns);
  const T* from = x.data<T>();
  T* to = output.mutable_data<T>();
  Index* places = indices.mutable_data<Index>();
  for_each_window(planes, windows, [&](std::int64_t plane, std::int64_t i, std::int64_t j) {
    const PoolSpan &rows = windows.rows[static_cast<std::size_t>(i)],
                   &columns = windows.columns[static_cast<std::size_t>(j)];
    const T* image = from + plane * windows.height * windows.width * planes.inner;
    const std::int64_t at = ((plane * oh + i) * ow + j) * planes.inner;
    for_each_block(planes.inner, [&]<bool full>(std::int64_t c, std::int64_t count) {
      window_maximum<full>(windows, rows, columns, planes.inner, pitch, image + c, count, to + at + c, places + at + c);
    });
  });
}

template <class T, class Index>
void backward(const Tensor& dy, const Tensor& indices, const PoolWindows& pooling, MemoryFormat format, Tensor& dx) {
  const WindowTable windows(pooling);
  using Sum = compute_t<T>;
  const Planes planes = planes_of(dx.shape(), format);
  const std::int64_t pitch = pooling.widest(), oh = std::ssize(windows.rows), ow = std::ssize(windows.columns);
  const T* from = dy.data<T>();
  const Index* places = indices.data<Index>();
  // What of window (i, j)'s gradient goes to place (h, w): everything where the index names it, else nothing.
  const auto position_of = [&](std::int64_t i, std::int64_t j, std::int64_t h, std::int64_t w) {
    return static_cast<Index>((h - windows.rows[static_cast<std::size_t>(i)].begin) * pitch + w -
                              windows.columns[static_cast<std::size_t>(j)].begin);
  };
  if (pooling.disjoint()) {
    using Bits = BitsOf<T>;
    scatter_disjoint(planes, windows, static_cast<Bits*>(dx.mutable_raw_data()),
                     [&](Bits* to, std::int64_t plane, std::int64_t i, std::int64_t j, std::int64_t h, std::int64_t w) {
                       const Index position = position_of(i, j, h, w);
                       const std::int64_t at = ((plane * oh + i) * ow + j) * planes.inner;
                       const Bits* given = static_cast<const Bits*>(dy.raw_data()) + at;
                       const Index* chosen = places + at;
#pragma GCC ivdep
                       for (std::int64_t c = 0; c < planes.inner; ++c)
                         to[c] = chosen[c] == position ? given[c] : Bits{};
                     });
    return;
  }
  scatter_overlapping(planes, windows, dx.mutable_data<T>(),
                      [&](Sum* to, std::int64_t plane, std::int64_t i, std::int64_t j, std::int64_t h, std::int64_t w) {
                        const Index position = position_of(i, j, h, w);
                        const std::int64_t at = ((plane * oh + i) * ow + j) * planes.inner;
                        const T* given = from + at;
                        const Index* chosen = places + at;
#pragma GCC ivdep
                        for (std::int64_t c = 0; c < planes.inner; ++c)
                          to[c] += chosen[c] == position ? static_cast<Sum>(given[c]) : Sum{0};
                      });
}

}  // namespace

template <>
void max_pool2d<DeviceType::cpu>(const Tensor& x, const PoolWindows& windows, MemoryFormat format, Tensor& output,
                                 Tensor& indices) {
  visit_floating("max_pool2d", x.dtype(), [&]<class T>() {
    visit_index(indices.dtype(), [&]<class Index>() { forward<T, Index>(x, windows, format, output, indices); });
  });
}

template <>
void max_pool2d_backward<DeviceType::cpu>(const Tensor& dy, const Tensor& indices, const PoolWindows& windows,
                                          MemoryFormat format, Tensor& dx) {
  visit_floating("max_pool2d_backward", dy.dtype(), [&]<class T>() {
    visit_index(indices.dtype(), [&]<class Index>() { backward<T, Index>(dy, indices, windows, format, dx); });
  });
}

}  // namespace tandem::core::kernels
