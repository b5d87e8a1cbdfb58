// exp, log, tanh and sigmoid that the compiler can vectorise inside a loop: always inlined, no branches, no calls, no
// tables.
//
// Each reduces its argument and sums a Taylor series, a term longer than a minimax polynomial and free of magic
// coefficients. Errors stay below 3 units in the last place (float and double); infinities, NaN and subnormal numbers
// are as in <cmath>, except that sigmoid underflows to 0 where its value is subnormal.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <type_traits>
#include <utility>

namespace tandem::core::cpu {

template <class T>
struct FloatTraits;
template <>
struct FloatTraits<float> {
  using Int = std::int32_t;
  static constexpr int kFractionBits = 23, kBias = 127;
  static constexpr float kLn2High = 0x1.62e4p-1f;        // short enough that its product with an exponent is exact
  static constexpr float kExpLow = -104, kExpHigh = 89;  // beyond these exp is 0 and infinity
  static constexpr float kTanhHigh = 10;                 // beyond this tanh is 1
  static constexpr int kExpTerms = 7, kLogTerms = 5;
};
template <>
struct FloatTraits<double> {
  using Int = std::int64_t;
  static constexpr int kFractionBits = 52, kBias = 1023;
  static constexpr double kLn2High = 0x1.62e42feep-1;
  static constexpr double kExpLow = -746, kExpHigh = 710;
  static constexpr double kTanhHigh = 20;
  static constexpr int kExpTerms = 13, kLogTerms = 11;
};

namespace detail {

template <class T>
inline constexpr T kLn2Low = static_cast<T>(std::numbers::ln2_v<long double> - FloatTraits<T>::kLn2High);

template <class T>
constexpr T inverse_factorial(int n) {
  long double product = 1;
  for (int i = 2; i <= n; ++i) product *= i;
  return static_cast<T>(1 / product);
}

// Horner's rule, unrolled by the fold: coefficients(0) + x * (coefficients(1) + ...), sizeof...(I) of them.
template <class Coefficient, class T, int... I>
[[gnu::always_inline]] inline T polynomial(T x, std::integer_sequence<int, I...>) {
  constexpr int kLast = sizeof...(I) - 1;
  T sum = 0;
  ((sum = sum * x + Coefficient::template value<T, kLast - I>), ...);
  return sum;
}

struct ExpCoefficient {  // (e^r - 1 - r) / r^2 = 1/2! + r/3! + ...
  template <class T, int I>
  static constexpr T value = inverse_factorial<T>(I + 2);
};
struct LogCoefficient {  // 2 artanh(s) = 2s + s * (2/3 s^2 + 2/5 s^4 + ...)
  template <class T, int I>
  static constexpr T value = static_cast<T>(2.0L / (2 * I + 3));
};

template <class T>
[[gnu::always_inline]] inline T power_of_two(typename FloatTraits<T>::Int exponent) {
  return std::bit_cast<T>((exponent + FloatTraits<T>::kBias) << FloatTraits<T>::kFractionBits);
}

// x = n ln 2 + r with |r| <= ln 2 / 2; returns e^r - 1.
template <class T>
[[gnu::always_inline]] inline T reduced_expm1(T x, typename FloatTraits<T>::Int* n) {
  using Traits = FloatTraits<T>;
  // Adding 1.5 * 2^fraction bits rounds to an integer, which then stands in the low bits.
  constexpr T kRound = T{3} * static_cast<T>(std::int64_t{1} << (Traits::kFractionBits - 1));
  const T shifted = x * std::numbers::log2e_v<T> + kRound;
  *n = std::bit_cast<typename Traits::Int>(shifted) - std::bit_cast<typename Traits::Int>(kRound);
  const T whole = shifted - kRound;
  const T r = (x - whole * Traits::kLn2High) - whole * kLn2Low<T>;
  return r + r * r * polynomial<ExpCoefficient>(r, std::make_integer_sequence<int, Traits::kExpTerms - 1>());
}

}  // namespace detail

template <class T>
[[gnu::always_inline]] inline T vector_exp(T x) {
  using Traits = FloatTraits<T>;
  x = x > Traits::kExpHigh ? Traits::kExpHigh : x;  // in this form NaN passes
  x = x < Traits::kExpLow ? Traits::kExpLow : x;
  typename Traits::Int n;
  const T value = 1 + detail::reduced_expm1(x, &n);
  const auto half = n >> 1;  // in two steps, since 2^n itself may be out of range where the result is not
  return value * detail::power_of_two<T>(half) * detail::power_of_two<T>(n - half);
}

template <class T>
[[gnu::always_inline]] inline T vector_log(T x) {
  using Traits = FloatTraits<T>;
  using Int = typename Traits::Int;
  using Unsigned = std::make_unsigned_t<Int>;  // a negative x would overflow
  constexpr Int kFractionMask = (Int{1} << Traits::kFractionBits) - 1;
  constexpr T kLift = static_cast<T>(std::int64_t{1} << (Traits::kFractionBits + 1));
  const bool subnormal = x < std::numeric_limits<T>::min();
  const T lifted = subnormal ? x * kLift : x;
  // x = 2^n m with m in [sqrt(1/2), sqrt(2)): counted in bits from sqrt(1/2).
  constexpr Int kOrigin = std::bit_cast<Int>(std::numbers::sqrt2_v<T> / 2);
  const Int bits = static_cast<Int>(std::bit_cast<Unsigned>(lifted) - static_cast<Unsigned>(kOrigin));
  const Int exponent = (bits >> Traits::kFractionBits) - (subnormal ? Traits::kFractionBits + 1 : 0);
  const T n = static_cast<T>(exponent);
  const T f = std::bit_cast<T>((bits & kFractionMask) + kOrigin) - 1;
  // log(1 + f) = 2 artanh(s), s = f / (2 + f); as 2s = f - s f, the exact f leads.
  const T s = f / (2 + f), z = s * s;
  const T tail =
      z * detail::polynomial<detail::LogCoefficient>(z, std::make_integer_sequence<int, Traits::kLogTerms>());
  const T value = n * Traits::kLn2High + (f - (s * (f - tail) - n * detail::kLn2Low<T>));
  // Added, not chosen, lest the compiler make branches of it; `value` is finite for every x.
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  const T if_not_positive = x == 0 ? -kInfinity : std::numeric_limits<T>::quiet_NaN();
  const T if_infinite = x > std::numeric_limits<T>::max() ? kInfinity : T{0};
  return value + (x > 0 ? if_infinite : if_not_positive);
}

template <class T>
[[gnu::always_inline]] inline T vector_tanh(T x) {
  using Traits = FloatTraits<T>;
  const T size = std::abs(x);
  const T a = size > Traits::kTanhHigh ? Traits::kTanhHigh : size;
  typename Traits::Int n;
  const T reduced = detail::reduced_expm1(2 * a, &n);
  const T scale = detail::power_of_two<T>(n);
  const T expm1 = scale * reduced + (scale - 1);
  return std::copysign(expm1 / (expm1 + 2), x);
}

template <class T>
[[gnu::always_inline]] inline T vector_sigmoid(T x) {
  return 1 / (1 + vector_exp(-x));
}

}  // namespace tandem::core::cpu
