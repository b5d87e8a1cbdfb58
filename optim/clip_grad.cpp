#include "tandem/optim/clip_grad.h"

#include <vector>

#include "tandem/core/ops/binary.h"
#include "tandem/core/ops/norm.h"
#include "tandem/core/ops/unary.h"
#include "tandem/core/ops/where.h"

namespace tandem::optim {
namespace {

using core::Tensor;

std::vector<Tensor> gradients_of(std::span<const autograd::Variable> parameters) {
  std::vector<Tensor> gradients;
  gradients.reserve(parameters.size());
  for (const autograd::Variable& parameter : parameters)
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  return gradients;
}

// max_norm / norm if the norm is larger, else 1. The small number is PyTorch's guard against rounding above the bound.
Tensor clip_factor(const Tensor& norm, double max_norm) {
  const Tensor bound = Tensor::full({}, max_norm, norm.options()), one = Tensor::full({}, 1, norm.options());
  return where(greater(norm, bound), div(bound, add_scalar(norm, 1e-6)), one);
}

}  // namespace

Tensor grad_norm(std::span<const autograd::Variable> parameters) {
  return sqrt(core::sum_of_squares(gradients_of(parameters)));
}

Tensor clip_grad_norm(std::span<const autograd::Variable> parameters, double max_norm) {
  if (!(max_norm > 0)) core::fail("clip_grad_norm: {} is not a positive norm", max_norm);
  std::vector<Tensor> gradients = gradients_of(parameters);
  const Tensor norm = sqrt(core::sum_of_squares(gradients));
  core::scale(gradients, clip_factor(norm, max_norm));
  return norm;
}

}  // namespace tandem::optim
