#include "tandem/nn/loss.h"

namespace tandem::nn {
namespace {

using autograd::Variable;
using core::Tensor;

Variable reduce(const Variable& losses, Reduction reduction) {
  switch (reduction) {
    case Reduction::mean: return autograd::mean(losses);
    case Reduction::sum: return autograd::sum(losses);
    case Reduction::none: break;
  }
  return losses;
}

void check_same_shape(const char* op, const Variable& prediction, const Tensor& target) {
  if (prediction.shape() != target.shape())
    core::fail("{}: prediction {} and target {} must have one shape", op, prediction.shape().str(),
               target.shape().str());
}

}  // namespace

Variable mse_loss(const Variable& prediction, const Tensor& target, Reduction reduction) {
  check_same_shape("mse_loss", prediction, target);
  return reduce(autograd::square(prediction - Variable(target)), reduction);
}

Variable nll_loss(const Variable& log_probabilities, const Tensor& target, Reduction reduction) {
  if (log_probabilities.data().rank() != 2 || target.rank() != 1 || target.size(0) != log_probabilities.size(0))
    core::fail("nll_loss: needs log-probabilities [N, C] and target [N], got {} and {}",
               log_probabilities.shape().str(), target.shape().str());
  const Variable chosen = autograd::squeeze(autograd::gather(log_probabilities, 1, target.unsqueeze(1)), 1);
  return reduce(-chosen, reduction);
}

Variable bce_with_logits_loss(const Variable& logits, const Tensor& target, Reduction reduction) {
  check_same_shape("bce_with_logits_loss", logits, target);
  const Variable magnitude = autograd::abs(logits);
  // max(x, 0), with the gradient 1/2 at 0 that the loss has there.
  const Variable positive_part = (logits + magnitude) * 0.5;
  const Variable log_term = autograd::log(autograd::exp(-magnitude) + 1.0);
  return reduce(positive_part - logits * Variable(target) + log_term, reduction);
}

}  // namespace tandem::nn
