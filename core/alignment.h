// How memory is aligned, and rounding up.
#pragma once

#include <concepts>
#include <cstddef>

namespace tandem::core {

/// Bytes: a cache line, an AVX-512 register. Blocks of memory and what is laid out within them begin at multiples of
/// it.
inline constexpr std::size_t kAlignment = 64;

/// n / d, rounded up; of numbers that are not negative.
template <std::integral I>
constexpr I divide_up(I n, I d) {
  return (n + d - 1) / d;
}

/// The next multiple of `alignment` that is not below `bytes`.
template <std::integral I>
constexpr I align_up(I bytes, I alignment = static_cast<I>(kAlignment)) {
  return divide_up(bytes, alignment) * alignment;
}

}  // namespace tandem::core
