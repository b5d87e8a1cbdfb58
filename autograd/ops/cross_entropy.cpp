#include "tandem/core/ops/cross_entropy.h"

#include "tandem/autograd/node.h"
#include "tandem/autograd/ops.h"

namespace tandem::autograd {

Variable cross_entropy(const Variable& logits, const Tensor& target, const core::CrossEntropyOptions& options) {
  core::CrossEntropyResult r = core::cross_entropy(logits.data(), target, options);
  return record(
      "cross_entropy", std::move(r.loss), {logits},
      [log_probabilities = SavedTensor(r.log_probabilities), target = SavedTensor(target),
       class_weights = SavedTensor(options.class_weights), options,
       total_weight = r.total_weight](Tensor dloss, Gradients& dx) {
        class_weights.get();  // also in the options: throws where they were changed
        dx.add(0, core::cross_entropy_backward(dloss, log_probabilities.get(), target.get(), options, total_weight));
      });
}

}  // namespace tandem::autograd
