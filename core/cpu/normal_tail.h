// Tails of the normal distribution that the compiler can vectorise inside a loop, for GELU: for a >= 0
//
//   P(X > a) = e^(-a^2 / 2) Q(a),   Q(a) = e^(a^2 / 2) erfc(a / sqrt 2) / 2
//
// Q falls slowly from 1/2, like 1 / a. In t = 1 / (1 + a / 3) it is t times a polynomial, nearly: the one through Q's
// own values at Chebyshev's points, which the compiler computes here from Q's definition. Off by less than 1e-8 of Q.
#pragma once

#include <array>
#include <numbers>
#include <utility>

#include "tandem/core/cpu/vector_math.h"

namespace tandem::core::cpu {
namespace detail {

inline constexpr int kTailTerms = 10;       // coefficients
inline constexpr float kTailHigh = 14;      // beyond it e^(-a^2 / 2) is 0 in float
inline constexpr float kTailCentre = 0.6f;  // of the range of t, where powers are taken from
inline constexpr long double kTailRate = 1 / 3.0L;

/// Taylor's series for small a; Laplace's continued fraction, which converges fast for large a.
constexpr long double normal_tail_by_definition(long double a) {
  constexpr long double kDensity = std::numbers::inv_sqrtpi_v<long double> / std::numbers::sqrt2_v<long double>;
  if (a > 3) {
    long double fraction = a;
    for (int k = 300; k > 0; --k) fraction = a + k / fraction;
    return kDensity / fraction;
  }
  // e^(a^2 / 2) / 2 - density * (a + a^3 / 3 + a^5 / (3 * 5) + ...)
  long double exponential = 0, odd = 0, even_term = 1, odd_term = a;
  for (int k = 0; k < 60; ++k) {
    exponential += even_term;
    odd += odd_term;
    even_term *= a * a / (2 * (k + 1));
    odd_term *= a * a / (2 * k + 3);
  }
  return exponential / 2 - kDensity * odd;
}

/// cos(x) for 0 <= x <= pi.
constexpr long double cosine(long double x) {
  long double sum = 0, term = 1;
  for (int k = 0; k < 20; ++k) {
    sum += term;
    term *= -x * x / ((2 * k + 1) * (2 * k + 2));
  }
  return sum;
}

/// Of powers of t - kTailCentre: Newton's divided differences, multiplied out.
constexpr std::array<float, kTailTerms> normal_tail_coefficients() {
  constexpr long double kLow = 1 / (1 + kTailRate * kTailHigh), kHalf = (1 - kLow) / 2;
  std::array<long double, kTailTerms> at{}, difference{}, sum{};
  for (int i = 0; i < kTailTerms; ++i) {
    const long double t = kLow + kHalf * (1 + cosine(std::numbers::pi_v<long double> * (2 * i + 1) / (2 * kTailTerms)));
    at[i] = t - kTailCentre;
    difference[i] = normal_tail_by_definition((1 / t - 1) / kTailRate) / t;
  }
  for (int order = 1; order < kTailTerms; ++order)
    for (int i = kTailTerms - 1; i >= order; --i)
      difference[i] = (difference[i] - difference[i - 1]) / (at[i] - at[i - order]);
  for (int i = kTailTerms - 1; i >= 0; --i) {  // sum = sum * (t - at[i]) + difference[i]
    for (int k = kTailTerms - 1; k > 0; --k) sum[k] = sum[k - 1] - at[i] * sum[k];
    sum[0] = difference[i] - at[i] * sum[0];
  }
  std::array<float, kTailTerms> coefficients{};
  for (int i = 0; i < kTailTerms; ++i) coefficients[i] = static_cast<float>(sum[i]);
  return coefficients;
}

struct NormalTailCoefficient {
  static constexpr std::array<float, kTailTerms> kAll = normal_tail_coefficients();
  template <class T, int I>
  static constexpr T value = kAll[I];
};

}  // namespace detail

/// Q(a) for 0 <= a <= 14.
[[gnu::always_inline]] inline float normal_tail(float a) {
  const float t = 1 / (1 + static_cast<float>(detail::kTailRate) * a);
  return t * detail::polynomial<detail::NormalTailCoefficient>(t - detail::kTailCentre,
                                                               std::make_integer_sequence<int, detail::kTailTerms>());
}

}  // namespace tandem::core::cpu
