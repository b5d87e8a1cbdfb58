#include "tandem/core/ops/softmax.h"

#include "tandem/autograd/node.h"
#include "tandem/autograd/ops.h"

namespace tandem::autograd {

Variable softmax(const Variable& x, int dim) {
  Tensor y = core::softmax(x.data(), dim);
  return record("softmax", y, {x}, [y = SavedTensor(y), dim](Tensor dy, Gradients& dx) {
    dx.add(0, core::softmax_backward(dy, y.get(), dim));
  });
}

Variable log_softmax(const Variable& x, int dim) {
  Tensor y = core::log_softmax(x.data(), dim);
  return record("log_softmax", y, {x}, [y = SavedTensor(y), dim](Tensor dy, Gradients& dx) {
    dx.add(0, core::log_softmax_backward(dy, y.get(), dim));
  });
}

}  // namespace tandem::autograd
