// Sums over rows, as gradients of weights and biases are: partial sums of a fixed number of rows, added in their order,
// so that they have the same bits for any number of threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "tandem/core/cpu/strided.h"

namespace tandem::core::cpu {

/// Rows of a chunk whose values take long to compute, and are summed in their own precision.
inline constexpr std::int64_t kRowsPerSum = 32;
/// Rows of a chunk that is only read: long enough to be worth a task, short enough that float sums stay good, and so
/// long that there are not too many.
inline std::int64_t rows_per_long_sum(std::int64_t rows) { return std::max<std::int64_t>(128, (rows + 511) / 512); }

/// Calls f(begin, end, sums) for chunks of `rows`, in parallel; f adds what the rows give to sums [width], which are of
/// type C and start at 0. Returns the totals, `width` values that are added in type Total.
template <class Total, class C, class F>
Tensor sum_in_row_chunks(std::int64_t rows, std::int64_t width, std::int64_t rows_per_chunk, F&& f) {
  const std::int64_t chunks = std::max<std::int64_t>(1, (rows + rows_per_chunk - 1) / rows_per_chunk);
  Tensor partial = Tensor::empty({chunks, width}, {.dtype = dtype_of<C>, .device = kCpu});
  C* sums = partial.mutable_data<C>();
  const auto add_rows_of = [&](std::int64_t chunk) {
    std::fill_n(sums + chunk * width, width, C{0});
    f(chunk * rows_per_chunk, std::min(rows, (chunk + 1) * rows_per_chunk), sums + chunk * width);
  };
  if (chunks == 1) {
    add_rows_of(0);
  } else {
    const std::int64_t grain = std::max<std::int64_t>(1, kGrain / (rows_per_chunk * std::max<std::int64_t>(1, width)));
    parallel_for(chunks, grain, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t chunk = first; chunk < last; ++chunk) add_rows_of(chunk);
    });
  }
  const auto add_chunks = [&](std::int64_t first, Total* totals) {
    parallel_for(width, std::max<std::int64_t>(64, kGrain / chunks), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t chunk = first; chunk < chunks; ++chunk)
        for (std::int64_t c = begin; c < end; ++c) totals[c] += static_cast<Total>(sums[chunk * width + c]);
    });
  };
  if constexpr (std::is_same_v<Total, C>) {  // the first chunk's sums become the totals
    if (chunks > 1) add_chunks(1, sums);
    return partial;
  } else {
    Tensor result = Tensor::zeros({width}, {.dtype = dtype_of<Total>, .device = kCpu});
    add_chunks(0, result.mutable_data<Total>());
    return result;
  }
}

/// gradient [n], of any strides and floating dtype, = or += sums. Does nothing if it is undefined.
template <class Sum>
void store_sums(const Sum* sums, Tensor& gradient, bool accumulate) {
  if (!gradient.defined()) return;
  const std::int64_t step = gradient.strides()[0], n = gradient.numel();
  visit_floating("store_sums", gradient.dtype(), [&]<class T>() {
    using C = compute_t<T>;
    using Wide = std::common_type_t<Sum, C>;
    T* out = gradient.mutable_data<T>();
    for (std::int64_t c = 0; c < n; ++c) {
      const Wide before = accumulate ? static_cast<Wide>(static_cast<C>(out[c * step])) : Wide{0};
      out[c * step] = static_cast<T>(static_cast<C>(before + static_cast<Wide>(sums[c])));
    }
  });
}

}  // namespace tandem::core::cpu
