// What an option of an optimizer or a schedule may be: a NaN or a wrong sign would otherwise show as a loss that grows.
#pragma once

#include <cmath>
#include <string_view>

#include "tandem/core/error.h"

namespace tandem::optim {

/// Throws Error, "lars: the momentum is -1, must be a number >= 0", if it is not finite or below 0.
inline void check_not_negative(std::string_view whose, std::string_view what, double value) {
  if (!(value >= 0 && std::isfinite(value))) core::fail("{}: the {} is {}, must be a number >= 0", whose, what, value);
}

/// The same for what must be above 0.
inline void check_positive(std::string_view whose, std::string_view what, double value) {
  if (!(value > 0 && std::isfinite(value))) core::fail("{}: the {} is {}, must be a number > 0", whose, what, value);
}

/// The same for what must be in [0, 1).
inline void check_below_one(std::string_view whose, std::string_view what, double value) {
  if (!(value >= 0 && value < 1)) core::fail("{}: {} is {}, must be a number >= 0 and < 1", whose, what, value);
}

/// What Adam and LAMB have in common.
inline void check_moments(std::string_view whose, double beta1, double beta2, double eps) {
  check_below_one(whose, "beta1", beta1);
  check_below_one(whose, "beta2", beta2);
  check_not_negative(whose, "eps", eps);
}

}  // namespace tandem::optim
