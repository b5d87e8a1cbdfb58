// What Adam and LAMB have in common: running means of a gradient and of its square.
#pragma once

#include <cmath>
#include <cstdint>

namespace tandem::core::cpu {

/// m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
template <class T>
struct Moments {
  Moments(double b1, double b2)
      : beta1(static_cast<T>(b1)),
        beta2(static_cast<T>(b2)),
        rest1(static_cast<T>(1 - b1)),
        rest2(static_cast<T>(1 - b2)) {}
  void update(T g, T& m, T& v) const {
    m = beta1 * m + rest1 * g;
    v = beta2 * v + rest2 * g * g;
  }

  T beta1, beta2, rest1, rest2;
};

/// What m and v are divided by after `steps` steps, since they began with zeros.
struct BiasCorrection {
  BiasCorrection(double beta1, double beta2, std::int64_t steps)
      : first(1 - std::pow(beta1, static_cast<double>(steps))),
        second(1 - std::pow(beta2, static_cast<double>(steps))) {}

  double first, second;
};

}  // namespace tandem::core::cpu
