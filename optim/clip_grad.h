// Gradient clipping by global norm. Source: Pascanu et al., "On the difficulty of training recurrent neural networks",
// 2013.
#pragma once

#include <span>

#include "tandem/autograd/variable.h"

namespace tandem::optim {

/// The Euclidean norm of all gradients taken as one vector (those that are none count as zero): float64 [], on their
/// device, where it stays until somebody reads it with item(). Summed in float64 and with the same bits for any number
/// of threads.
core::Tensor grad_norm(std::span<const autograd::Variable> parameters);

/// Scales all gradients by max_norm / norm if the norm is larger. Returns the norm before, as grad_norm does.
core::Tensor clip_grad_norm(std::span<const autograd::Variable> parameters, double max_norm);

}  // namespace tandem::optim
