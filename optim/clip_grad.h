// Gradient clipping by global norm. Source: Pascanu et al., "On the difficulty of training recurrent neural networks",
// 2013.
#pragma once

#include <span>

#include "tandem/autograd/variable.h"

namespace tandem::optim {

/// The Euclidean norm of all gradients taken as one vector (those that are none count as zero), summed in float64 and
/// with the same bits for any number of threads.
double grad_norm(std::span<const autograd::Variable> parameters);

/// Scales all gradients by max_norm / norm where the norm is larger. Returns the norm before.
double clip_grad_norm(std::span<const autograd::Variable> parameters, double max_norm);

}  // namespace tandem::optim
