#include "tandem/core/ops/max_pool2d.h"

#include "tandem/autograd/node.h"
#include "tandem/autograd/ops.h"

namespace tandem::autograd {

Variable max_pool2d(const Variable& x, const core::Pool2dOptions& options) {
  core::MaxPool2dResult pooled = core::max_pool2d(x.data(), options);
  return record("max_pool2d", std::move(pooled.output), {x},
                [indices = SavedTensor(pooled.indices), shape = x.shape(), options](Tensor dy, Gradients& dx) {
                  dx.add(0, core::max_pool2d_backward(dy, indices.get(), shape, options));
                });
}

Variable adaptive_max_pool2d(const Variable& x, std::array<std::int64_t, 2> size) {
  core::MaxPool2dResult pooled = core::adaptive_max_pool2d(x.data(), size);
  return record("adaptive_max_pool2d", std::move(pooled.output), {x},
                [indices = SavedTensor(pooled.indices), shape = x.shape()](Tensor dy, Gradients& dx) {
                  dx.add(0, core::adaptive_max_pool2d_backward(dy, indices.get(), shape));
                });
}

}  // namespace tandem::autograd
