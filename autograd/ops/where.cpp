#include "tandem/core/ops/where.h"

#include "tandem/autograd/node.h"
#include "tandem/autograd/ops.h"

namespace tandem::autograd {

Variable where(const Tensor& condition, const Variable& a, const Variable& b) {
  return record("where", core::where(condition, a.data(), b.data()), {a, b},
                [condition = SavedTensor(condition)](Tensor dy, Gradients& dx) {
                  const Tensor zero = Tensor::scalar(0, dy.dtype(), dy.device());
                  if (dx.needs(0)) dx.add(0, core::where(condition.get(), dy, zero));
                  if (dx.needs(1)) dx.add(1, core::where(condition.get(), zero, dy));
                });
}

}  // namespace tandem::autograd
