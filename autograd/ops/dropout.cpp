#include "tandem/core/ops/dropout.h"

#include "tandem/autograd/node.h"
#include "tandem/autograd/ops.h"

namespace tandem::autograd {

Variable dropout(const Variable& x, double p, const core::PhiloxStream& stream) {
  core::DropoutResult dropped = core::dropout(x.data(), p, stream);
  return record("dropout", std::move(dropped.output), {x},
                [mask = SavedTensor(dropped.mask), p](Tensor dy, Gradients& dx) {
                  dx.add(0, core::dropout_backward(std::move(dy), mask.get(), p));
                });
}

}  // namespace tandem::autograd
