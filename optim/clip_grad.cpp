#include "tandem/optim/clip_grad.h"

#include <cmath>

#include "tandem/core/ops/reduce.h"
#include "tandem/core/ops/unary.h"

namespace tandem::optim {

double grad_norm(std::span<const autograd::Variable> parameters) {
  double squares = 0;
  for (const autograd::Variable& parameter : parameters)
    if (parameter.grad().defined()) squares += core::sum_of_squares(parameter.grad());
  return std::sqrt(squares);
}

double clip_grad_norm(std::span<const autograd::Variable> parameters, double max_norm) {
  if (!(max_norm > 0)) core::fail("clip_grad_norm: {} is not a positive norm", max_norm);
  const double norm = grad_norm(parameters);
  if (norm > max_norm) {
    for (const autograd::Variable& parameter : parameters) {
      if (!parameter.grad().defined()) continue;
      core::Tensor gradient = parameter.grad();
      core::scale(gradient, max_norm / (norm + 1e-6));  // PyTorch's guard against rounding above the bound
    }
  }
  return norm;
}

}  // namespace tandem::optim
