// gradcheck: compares the gradients of a function with finite differences, in float64.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tandem/autograd/variable.h"

namespace tandem::autograd {

struct GradcheckOptions {
  double eps = 1e-6;   ///< half the distance of the two evaluations
  double rtol = 1e-5;  ///< |analytic - numeric| <= atol + rtol |numeric|
  double atol = 1e-7;
};

struct GradcheckResult {
  bool ok = true;
  std::string message;     ///< the first element that differs: input, position, both derivatives
  double worst_error = 0;  ///< largest |analytic - numeric|
};

/// `function` maps `inputs` (leaves in float64; those that require a gradient are checked) to one variable of any
/// shape, of which the sum with fixed, uneven weights is differentiated. It must compute the same each time. Inputs
/// keep their layout: pass transposed or sliced ones to test those.
GradcheckResult gradcheck(const std::function<Variable(const std::vector<Variable>&)>& function,
                          std::vector<Variable> inputs, const GradcheckOptions& options = {});

}  // namespace tandem::autograd
