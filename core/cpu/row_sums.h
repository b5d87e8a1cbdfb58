// Sums over rows, as gradients of weights and biases are: partial sums of a fixed number of rows, added in their order,
// so that they have the same bits for any number of threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tandem/core/cpu/strided.h"

namespace tandem::core::cpu {

/// Rows whose values are summed in their own precision.
inline constexpr std::int64_t kRowsPerSum = 32;

/// Calls f(begin, end, sums) for chunks of `rows`, in parallel; f adds what the rows give to sums [width], which are of
/// type C and start at 0. Returns the totals, float64 [width].
template <class C, class F>
Tensor sum_in_row_chunks(std::int64_t rows, std::int64_t width, F&& f) {
  const std::int64_t chunks = (rows + kRowsPerSum - 1) / kRowsPerSum;
  Tensor partial = Tensor::empty({chunks, width}, {.dtype = dtype_of<C>, .device = kCpu});
  C* sums = partial.mutable_data<C>();
  const std::int64_t grain = std::max<std::int64_t>(1, kGrain / (kRowsPerSum * std::max<std::int64_t>(1, width)));
  parallel_for(chunks, grain, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t chunk = first; chunk < last; ++chunk) {
      std::fill_n(sums + chunk * width, width, C{0});
      f(chunk * kRowsPerSum, std::min(rows, (chunk + 1) * kRowsPerSum), sums + chunk * width);
    }
  });
  Tensor result = Tensor::zeros({width}, {.dtype = DType::float64, .device = kCpu});
  double* totals = result.mutable_data<double>();
  parallel_for(width, std::max<std::int64_t>(64, kGrain / std::max<std::int64_t>(1, chunks)),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t chunk = 0; chunk < chunks; ++chunk)
                   for (std::int64_t c = begin; c < end; ++c) totals[c] += static_cast<double>(sums[chunk * width + c]);
               });
  return result;
}

/// gradient [n], of any strides and floating dtype, = or += sums. Does nothing where it is undefined.
inline void store_sums(const double* sums, Tensor& gradient, bool accumulate) {
  if (!gradient.defined()) return;
  const std::int64_t step = gradient.strides()[0];
  visit_floating("store_sums", gradient.dtype(), [&]<class T>() {
    T* out = gradient.mutable_data<T>();
    for (std::int64_t c = 0; c < gradient.numel(); ++c) {
      const double before = accumulate ? static_cast<double>(static_cast<compute_t<T>>(out[c * step])) : 0;
      out[c * step] = static_cast<T>(static_cast<compute_t<T>>(before + sums[c]));
    }
  });
}

}  // namespace tandem::core::cpu
