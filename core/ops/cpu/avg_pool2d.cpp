#include "tandem/core/ops/avg_pool2d.h"

#include "tandem/core/ops/cpu/pool_planes.h"

namespace tandem::core::kernels {
using namespace cpu;
namespace {

// Sum of n adjacent values, in lanes: neither one long chain nor one value at a time.
template <class T>
compute_t<T> sum_of(const T* from, std::int64_t n) {
  constexpr std::int64_t kSums = 16;
  compute_t<T> sums[kSums] = {};
  std::int64_t i = 0;
  for (; i + kSums <= n; i += kSums)
    for (std::int64_t k = 0; k < kSums; ++k) sums[k] += static_cast<compute_t<T>>(from[i + k]);
  for (; i < n; ++i) sums[i % kSums] += static_cast<compute_t<T>>(from[i]);
  for (std::int64_t step = kSums / 2; step > 0; step /= 2)
    for (std::int64_t k = 0; k < step; ++k) sums[k] += sums[k + step];
  return sums[0];
}

// Mean of one window for `count` adjacent values; `x` points to place (0, 0) of the plane. Rows are summed one by one,
// then together.
template <bool full, class T>
void window_mean(const WindowTable& windows, const PoolSpan& rows, const PoolSpan& columns, std::int64_t inner,
                 const T* x, std::int64_t given, T* output) {
  using Sum = compute_t<T>;
  const std::int64_t count = full ? kPoolBlock : given;
  Sum total[kPoolBlock] = {}, sum[kPoolBlock];
  for (std::int64_t h = rows.begin; h < rows.end; ++h) {
    std::fill_n(sum, kPoolBlock, Sum{0});
    for (std::int64_t w = columns.begin; w < columns.end; ++w) {
      const T* from = x + (h * windows.width + w) * inner;
      for (std::int64_t c = 0; c < count; ++c) sum[c] += static_cast<Sum>(from[c]);
    }
    for (std::int64_t c = 0; c < count; ++c) total[c] += sum[c];
  }
  const Sum share = Sum{1} / static_cast<Sum>(rows.extent * columns.extent);
  for (std::int64_t c = 0; c < count; ++c) output[c] = static_cast<T>(total[c] * share);
}

}  // namespace

template <>
void avg_pool2d<DeviceType::cpu>(const Tensor& x, const PoolWindows& pooling, MemoryFormat format, Tensor& output) {
  const WindowTable windows(pooling);
  const Planes planes = planes_of(x.shape(), format);
  const std::int64_t oh = std::ssize(windows.rows), ow = std::ssize(windows.columns);
  visit_floating("avg_pool2d", x.dtype(), [&]<class T>() {
    using Sum = compute_t<T>;
    const T* from = x.data<T>();
    T* to = output.mutable_data<T>();
    for_each_window(planes, windows, [&](std::int64_t plane, std::int64_t i, std::int64_t j) {
      const PoolSpan &rows = windows.rows[static_cast<std::size_t>(i)],
                     &columns = windows.columns[static_cast<std::size_t>(j)];
      const T* image = from + plane * windows.height * windows.width * planes.inner;
      T* out = to + ((plane * oh + i) * ow + j) * planes.inner;
      if (planes.inner == 1) {
        Sum total = 0;
        for (std::int64_t h = rows.begin; h < rows.end; ++h)
          total += sum_of(image + h * windows.width + columns.begin, columns.end - columns.begin);
        *out = static_cast<T>(total / static_cast<Sum>(rows.extent * columns.extent));
        return;
      }
      for_each_block(planes.inner, [&]<bool full>(std::int64_t c, std::int64_t count) {
        window_mean<full>(windows, rows, columns, planes.inner, image + c, count, out + c);
      });
    });
  });
}

template <>
void avg_pool2d_backward<DeviceType::cpu>(const Tensor& dy, const PoolWindows& pooling, MemoryFormat format,
                                          Tensor& dx) {
  const WindowTable windows(pooling);
  const Planes planes = planes_of(dx.shape(), format);
  const std::int64_t oh = std::ssize(windows.rows), ow = std::ssize(windows.columns);
  visit_floating("avg_pool2d_backward", dy.dtype(), [&]<class T>() {
    using Sum = compute_t<T>;
    const T* from = dy.data<T>();
    const auto share_of = [&](std::int64_t i, std::int64_t j) {
      return Sum{1} / static_cast<Sum>(windows.rows[static_cast<std::size_t>(i)].extent *
                                       windows.columns[static_cast<std::size_t>(j)].extent);
    };
    const auto give = [&](std::int64_t plane, std::int64_t i, std::int64_t j) {
      return from + ((plane * oh + i) * ow + j) * planes.inner;
    };
    if (pooling.disjoint()) {
      scatter_disjoint(planes, windows, dx.mutable_data<T>(),
                       [&](T* to, std::int64_t plane, std::int64_t i, std::int64_t j, std::int64_t, std::int64_t) {
                         const Sum share = share_of(i, j);
                         const T* given = give(plane, i, j);
#pragma GCC ivdep
                         for (std::int64_t c = 0; c < planes.inner; ++c)
                           to[c] = static_cast<T>(static_cast<Sum>(given[c]) * share);
                       });
      return;
    }
    scatter_overlapping(planes, windows, dx.mutable_data<T>(),
                        [&](Sum* to, std::int64_t plane, std::int64_t i, std::int64_t j, std::int64_t, std::int64_t) {
                          const Sum share = share_of(i, j);
                          const T* given = give(plane, i, j);
#pragma GCC ivdep
                          for (std::int64_t c = 0; c < planes.inner; ++c) to[c] += static_cast<Sum>(given[c]) * share;
                        });
  });
}

}  // namespace tandem::core::kernels
