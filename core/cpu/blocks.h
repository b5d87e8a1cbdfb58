// Kernels compute in blocks of a row where the dtype in memory is not the one of arithmetic: a block is converted as a
// whole, into or out of a buffer that stays in L1.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "tandem/core/dtype.h"

namespace tandem::core::cpu {

/// Elements of a block: summed in their own precision before the partial sum goes into a double. Also the size of
/// buffers on the stack.
inline constexpr std::int64_t kRowBlock = 256;

/// Calls f(begin, count) for consecutive blocks of [0, n), of kRowBlock elements but for the last.
template <class F>
void for_each_block(std::int64_t n, F&& f) {
  for (std::int64_t begin = 0; begin < n; begin += kRowBlock) f(begin, std::min(kRowBlock, n - begin));
}

/// out[i] = values[i], as bfloat16_bits (vectors.h) rounds. `out` may begin where `values` does, if n is a multiple
/// of 16.
void round_to_bfloat16(const float* values, std::int64_t n, bfloat16* out);

/// n elements in the type that they are computed in: where they lie, or converted into `buffer`.
template <class T>
const compute_t<T>* load_block(const T* x, std::int64_t n, compute_t<T>* buffer) {
  if constexpr (std::is_same_v<T, compute_t<T>>) {
    return x;
  } else {
    for (std::int64_t i = 0; i < n; ++i) buffer[i] = static_cast<compute_t<T>>(x[i]);
    return buffer;
  }
}

/// Where to write n results that belong to `out`, and then the conversion of what was written there.
template <class T>
compute_t<T>* store_target(T* out, compute_t<T>* buffer) {
  if constexpr (std::is_same_v<T, compute_t<T>>)
    return out;
  else
    return buffer;
}
template <class T>
void store_block(const compute_t<T>* values, std::int64_t n, T* out) {
  if constexpr (std::is_same_v<T, bfloat16>) {
    round_to_bfloat16(values, n, out);
  } else if constexpr (!std::is_same_v<T, compute_t<T>>) {
    for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(values[i]);
  }
}

/// out[i] = value(i) for i < n, in a loop that the compiler vectorises; value(i) may read out[i], but no other element
/// of it, and change element i of something else. Where value(i) takes less time than memory, for_each_vector
/// (vectors.h) is faster: it needs no buffer.
template <class T, class Value>
[[gnu::always_inline]] inline void store_each(T* out, std::int64_t n, Value&& value) {
  for_each_block(n, [&](std::int64_t begin, std::int64_t count) {
    compute_t<T> buffer[kRowBlock];
    compute_t<T>* to = store_target(out + begin, buffer);
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) to[i] = value(begin + i);
    store_block(to, count, out + begin);
  });
}

}  // namespace tandem::core::cpu
