#include "tandem/core/ops/gather.h"

#include "tandem/autograd/node.h"
#include "tandem/autograd/ops.h"

namespace tandem::autograd {

Variable gather(const Variable& x, int dim, const Tensor& index) {
  return record("gather", core::gather(x.data(), dim, index), {x},
                [index = SavedTensor(index), shape = x.shape(), dim](Tensor dy, Gradients& dx) {
                  Tensor gradient = Tensor::zeros(shape, dy.options());
                  core::scatter_add(gradient, dim, index.get(), dy);
                  dx.add(0, std::move(gradient));
                });
}

}  // namespace tandem::autograd
