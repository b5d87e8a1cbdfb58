// Losses: functions from predictions and targets to what is to be made small.
#pragma once

#include "tandem/autograd/ops.h"

namespace tandem::nn {

// From logits, in one pass with the softmax; also with ignore index, label smoothing, class weights.
using autograd::cross_entropy;
using core::CrossEntropyOptions;
using core::Reduction;

/// (prediction - target)^2, target not differentiated. Shapes must be equal: broadcasting here is nearly always a
/// mistake.
autograd::Variable mse_loss(const autograd::Variable& prediction, const core::Tensor& target,
                            Reduction reduction = Reduction::mean);

/// -log_probabilities[n, target[n]]; log_probabilities [N, C], target int64 [N].
autograd::Variable nll_loss(const autograd::Variable& log_probabilities, const core::Tensor& target,
                            Reduction reduction = Reduction::mean);

/// Binary cross entropy from logits x and targets t of one shape: max(x, 0) - x t + log(1 + exp(-|x|)).
autograd::Variable bce_with_logits_loss(const autograd::Variable& logits, const core::Tensor& target,
                                        Reduction reduction = Reduction::mean);

}  // namespace tandem::nn
