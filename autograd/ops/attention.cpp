#include "tandem/core/ops/attention.h"

#include "tandem/autograd/node.h"
#include "tandem/autograd/ops.h"

namespace tandem::autograd {

Variable attention(const Variable& q, const Variable& k, const Variable& v, const core::AttentionOptions& options) {
  core::AttentionForward f = core::attention(q.data(), k.data(), v.data(), options);
  core::AttentionOptions unmasked = options;
  unmasked.mask = {};
  return record("attention", f.output, {q, k, v},
                [q = SavedTensor(q.data()), k = SavedTensor(k.data()), v = SavedTensor(v.data()),
                 output = SavedTensor(f.output), log_sum_exp = SavedTensor(f.log_sum_exp),
                 mask = SavedTensor(options.mask), options = std::move(unmasked)](Tensor dy, Gradients& dx) {
                  core::AttentionOptions same = options;
                  same.mask = mask.get();
                  core::AttentionGradients gradients = core::attention_backward(
                      dy, q.get(), k.get(), v.get(), {.output = output.get(), .log_sum_exp = log_sum_exp.get()}, same);
                  dx.add(0, std::move(gradients.q));
                  dx.add(1, std::move(gradients.k));
                  dx.add(2, std::move(gradients.v));
                });
}

}  // namespace tandem::autograd
