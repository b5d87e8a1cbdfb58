#include "tandem/core/ops/softmax.h"

#include "tandem/core/cpu/strided.h"
#include "tandem/core/ops/cpu/softmax.h"

namespace tandem::core::kernels {
using namespace cpu;
namespace {

// An exponential costs about as much as this many elements of a copy.
constexpr std::int64_t kExpGrain = kGrain / 8;
// Columns handled together where the dimension is not adjacent in memory.
constexpr std::int64_t kColumns = 64;

template <bool kLog, class T>
void forward_row(const T* x, T* y, std::int64_t n) {
  using C = compute_t<T>;
  if constexpr (kLog) {
    const auto normalize = log_normalizer(x, n);
    for (std::int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(normalize(static_cast<C>(x[i])));
  } else {
    const C max = row_max(x, n);
    // Sixteen-bit results would lose precision before the division, so for them exponentials are computed twice.
    const double sum = row_exp_sum(x, max, n, [y](std::int64_t begin, const C* e, std::int64_t count) {
      if constexpr (std::is_same_v<T, C>) std::copy_n(e, count, y + begin);
    });
    const C factor = static_cast<C>(1 / sum);
    if constexpr (std::is_same_v<T, C>) {
      for (std::int64_t i = 0; i < n; ++i) y[i] *= factor;
    } else {
      row_exp_sum(x, max, n, [y, factor](std::int64_t begin, const C* e, std::int64_t count) {
        for (std::int64_t i = 0; i < count; ++i) y[begin + i] = static_cast<T>(e[i] * factor);
      });
    }
  }
}

// dx = y (dy - sum) or dy - exp(y) sum.
template <bool kLog, class C>
void backward_block(const C* dy, const C* y, const C* sum, std::int64_t sum_step, C* dx, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    const C s = sum[i * sum_step];
    dx[i] = kLog ? dy[i] - exp_nonpositive(y[i]) * s : y[i] * (dy[i] - s);
  }
}

template <bool kLog, class T>
void backward_row(const T* dy, const T* y, T* dx, std::int64_t n) {
  using C = compute_t<T>;
  C dy_buffer[kRowBlock], y_buffer[kRowBlock], dx_buffer[kRowBlock];
  double total = 0;
  for_each_block(n, [&](std::int64_t begin, std::int64_t count) {
    const C* gradient = load_block(dy + begin, count, dy_buffer);
    total += static_cast<double>(kLog ? block_sum(gradient, count)
                                      : block_dot(gradient, load_block(y + begin, count, y_buffer), count));
  });
  const C sum = static_cast<C>(total);
  for_each_block(n, [&](std::int64_t begin, std::int64_t count) {
    C* out = store_target(dx + begin, dx_buffer);
    backward_block<kLog>(load_block(dy + begin, count, dy_buffer), load_block(y + begin, count, y_buffer), &sum, 0, out,
                         count);
    store_block(out, count, dx + begin);
  });
}

// For n <= kColumns adjacent columns, totals[i] = sum over d < size of what add(d, partial) adds to partial[i], which
// is set aside in double after every kRowBlock rows.
template <class C, class Add>
void column_sums(std::int64_t size, std::int64_t n, double* totals, Add&& add) {
  std::fill_n(totals, n, 0.);
  for_each_block(size, [&](std::int64_t begin, std::int64_t count) {
    C partial[kColumns] = {};
    for (std::int64_t d = begin; d < begin + count; ++d) add(d, partial);
    for (std::int64_t i = 0; i < n; ++i) totals[i] += static_cast<double>(partial[i]);
  });
}

// x and y point to the first of n columns; rows are `step` elements apart.
template <bool kLog, class T>
void forward_columns(const T* x, T* y, std::int64_t size, std::int64_t step, std::int64_t n) {
  using C = compute_t<T>;
  C max[kColumns], last[kColumns], buffer[kColumns], out_buffer[kColumns];
  double sums[kColumns];
  std::fill_n(max, n, -std::numeric_limits<C>::infinity());
  for (std::int64_t d = 0; d < size; ++d) {
    const C* v = load_block(x + d * step, n, buffer);
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) max[i] = v[i] > max[i] ? v[i] : max[i];
  }
  column_sums<C>(size, n, sums, [&](std::int64_t d, C* partial) {
    const C* v = load_block(x + d * step, n, buffer);
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) partial[i] += exp_nonpositive(v[i] - max[i]);
  });
  for (std::int64_t i = 0; i < n; ++i) last[i] = static_cast<C>(kLog ? std::log(sums[i]) : 1 / sums[i]);
  for (std::int64_t d = 0; d < size; ++d) {
    const C* v = load_block(x + d * step, n, buffer);
    C* out = store_target(y + d * step, out_buffer);
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i)
      out[i] = kLog ? (v[i] - max[i]) - last[i] : exp_nonpositive(v[i] - max[i]) * last[i];
    store_block(out, n, y + d * step);
  }
}

template <bool kLog, class T>
void backward_columns(const T* dy, const T* y, T* dx, std::int64_t size, std::int64_t step, std::int64_t n) {
  using C = compute_t<T>;
  C sum[kColumns], dy_buffer[kColumns], y_buffer[kColumns], dx_buffer[kColumns];
  double totals[kColumns];
  column_sums<C>(size, n, totals, [&](std::int64_t d, C* partial) {
    const C *gradient = load_block(dy + d * step, n, dy_buffer), *result = load_block(y + d * step, n, y_buffer);
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) partial[i] += kLog ? gradient[i] : gradient[i] * result[i];
  });
  for (std::int64_t i = 0; i < n; ++i) sum[i] = static_cast<C>(totals[i]);
  for (std::int64_t d = 0; d < size; ++d) {
    C* out = store_target(dx + d * step, dx_buffer);
    backward_block<kLog>(load_block(dy + d * step, n, dy_buffer), load_block(y + d * step, n, y_buffer), sum, 1, out,
                         n);
    store_block(out, n, dx + d * step);
  }
}

// Calls row(offset) for each row that is adjacent in memory, or else columns(offset, n) for each group of adjacent
// columns.
template <class Row, class Columns>
void for_each_row(const AroundDim& at, Row&& row, Columns&& columns) {
  if (at.inner == 1) {
    parallel_for(at.outer, std::max<std::int64_t>(1, kExpGrain / at.size), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t o = begin; o < end; ++o) row(o * at.size);
    });
    return;
  }
  const std::int64_t groups = (at.inner + kColumns - 1) / kColumns, width = std::min(kColumns, at.inner);
  parallel_for(at.outer * groups, std::max<std::int64_t>(1, kExpGrain / (at.size * width)),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t g = begin; g < end; ++g) {
                   const std::int64_t first = g % groups * kColumns;
                   columns(g / groups * at.size * at.inner + first, std::min(kColumns, at.inner - first));
                 }
               });
}

template <bool kLog>
void forward(const Tensor& x, int dim, Tensor& y) {
  const AroundDim at(x, dim);
  visit_floating(kLog ? "log_softmax" : "softmax", x.dtype(), [&]<class T>() {
    const T* in = x.data<T>();
    T* out = y.mutable_data<T>();
    for_each_row(
        at, [&](std::int64_t o) { forward_row<kLog>(in + o, out + o, at.size); },
        [&](std::int64_t o, std::int64_t n) { forward_columns<kLog>(in + o, out + o, at.size, at.inner, n); });
  });
}

template <bool kLog>
void backward(const Tensor& dy, const Tensor& y, int dim, Tensor& dx) {
  const AroundDim at(y, dim);
  visit_floating(kLog ? "log_softmax_backward" : "softmax_backward", y.dtype(), [&]<class T>() {
    const T *gradient = dy.data<T>(), *result = y.data<T>();
    T* out = dx.mutable_data<T>();
    for_each_row(
        at, [&](std::int64_t o) { backward_row<kLog>(gradient + o, result + o, out + o, at.size); },
        [&](std::int64_t o, std::int64_t n) {
          backward_columns<kLog>(gradient + o, result + o, out + o, at.size, at.inner, n);
        });
  });
}

}  // namespace

template <>
void softmax<DeviceType::cpu>(const Tensor& x, int dim, Tensor& y) {
  forward<false>(x, dim, y);
}
template <>
void log_softmax<DeviceType::cpu>(const Tensor& x, int dim, Tensor& y) {
  forward<true>(x, dim, y);
}
template <>
void softmax_backward<DeviceType::cpu>(const Tensor& dy, const Tensor& y, int dim, Tensor& dx) {
  backward<false>(dy, y, dim, dx);
}
template <>
void log_softmax_backward<DeviceType::cpu>(const Tensor& dy, const Tensor& y, int dim, Tensor& dx) {
  backward<true>(dy, y, dim, dx);
}

}  // namespace tandem::core::kernels
