#include "tandem/core/ops/matmul.h"

#include "tandem/autograd/node.h"
#include "tandem/autograd/ops.h"

namespace tandem::autograd {

// y = a b  =>  da = dy b^T,  db = a^T dy, over the last two dimensions; broadcast batches are summed by the engine.
Variable matmul(const Variable& a, const Variable& b) {
  return record("matmul", core::matmul(a.data(), b.data()), {a, b},
                [a = saved_for(b, a), b = saved_for(a, b)](Tensor dy, Gradients& dx) {
                  if (dx.needs(0)) dx.add(0, core::matmul(dy, b.get().transpose(-2, -1)));
                  if (dx.needs(1)) dx.add(1, core::matmul(a.get().transpose(-2, -1), dy));
                });
}

}  // namespace tandem::autograd
