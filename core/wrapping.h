// Arithmetic in which integers wrap around. Signed overflow is undefined in C++; in the unsigned type it wraps.
#pragma once

#include <type_traits>

namespace tandem::core {

/// The unsigned type of an integer; another type itself.
template <class C>
using wrapping_t =
    typename std::conditional_t<std::is_integral_v<C>, std::make_unsigned<C>, std::type_identity<C>>::type;

template <class C>
constexpr C wrapping_add(C a, C b) {
  return static_cast<C>(static_cast<wrapping_t<C>>(a) + static_cast<wrapping_t<C>>(b));
}
template <class C>
constexpr C wrapping_sub(C a, C b) {
  return static_cast<C>(static_cast<wrapping_t<C>>(a) - static_cast<wrapping_t<C>>(b));
}
template <class C>
constexpr C wrapping_mul(C a, C b) {
  return static_cast<C>(static_cast<wrapping_t<C>>(a) * static_cast<wrapping_t<C>>(b));
}

}  // namespace tandem::core
