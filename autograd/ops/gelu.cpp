#include "tandem/core/ops/gelu.h"

#include "tandem/autograd/node.h"
#include "tandem/autograd/ops.h"

namespace tandem::autograd {

Variable gelu(const Variable& x, core::GeluApproximation approximation) {
  return record("gelu", core::gelu(x.data(), approximation), {x},
                [x = SavedTensor(x.data()), approximation](Tensor dy, Gradients& dx) {
                  dx.add(0, core::gelu_backward(std::move(dy), x.get(), approximation));
                });
}

// With the x before its bias saved, which a product gave: forward writes nothing but its result.
Variable bias_gelu(const Variable& x, const Variable& bias, core::GeluApproximation approximation, bool recompute) {
  Variable y =
      record("bias_gelu", core::bias_gelu(x.data(), bias.data(), approximation), {x, bias},
             [x = SavedTensor(x.data()), bias = SavedTensor(bias.data()), approximation](Tensor dy, Gradients& dx) {
               GradientMemory dbias = dx.memory(1);
               dx.add(0, core::bias_gelu_backward(std::move(dy), x.get(), bias.get(), approximation, dbias.tensor,
                                                  dbias.accumulate));
               dx.commit(1, std::move(dbias));
             });
  if (recompute)
    offer_recipe(y, [x = SavedTensor(x.data()), bias = SavedTensor(bias.data()), approximation] {
      return core::bias_gelu(x.get(), bias.get(), approximation);
    });
  return y;
}

}  // namespace tandem::autograd
