#include "tandem/core/ops/cross_entropy.h"

#include "tandem/autograd/node.h"
#include "tandem/autograd/ops.h"

namespace tandem::autograd {

Variable cross_entropy(const Variable& logits, const Tensor& target, const core::CrossEntropyOptions& options) {
  core::CrossEntropyResult forward = core::cross_entropy(logits.data(), target, options);
  Tensor loss = std::move(forward.loss);  // backward does not need it
  return record("cross_entropy", std::move(loss), {logits},
                [x = SavedTensor(logits.data()), target = SavedTensor(target),
                 class_weights = SavedTensor(options.class_weights), options, forward](Tensor dloss, Gradients& dx) {
                  class_weights.get();  // also in the options: throws where they were changed
                  dx.add(0, core::cross_entropy_backward(dloss, x.get(), target.get(), options, forward));
                });
}

}  // namespace tandem::autograd
