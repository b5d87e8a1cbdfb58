#include "tandem/core/ops/embedding.h"

#include "tandem/autograd/node.h"
#include "tandem/autograd/ops.h"

namespace tandem::autograd {

Variable embedding(const Variable& weight, const Tensor& indices, std::int64_t padding_idx) {
  return record("embedding", core::embedding(weight.data(), indices), {weight},
                [indices = SavedTensor(indices), padding_idx](Tensor dy, Gradients& dx) {
                  dx.write(0, [&](Tensor& dweight, bool accumulate) {
                    core::embedding_backward(dy, indices.get(), dweight, accumulate, padding_idx);
                  });
                });
}

}  // namespace tandem::autograd
