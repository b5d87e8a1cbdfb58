#include "tandem/core/ops/linear.h"

#include "tandem/autograd/node.h"
#include "tandem/autograd/ops.h"

namespace tandem::autograd {

// y = x W^T + b  =>  dx = dy W,  dW = dy^T x,  db = sum of dy over rows
Variable linear(const Variable& x, const Variable& weight, const Variable& bias) {
  Tensor y = core::linear(x.data(), weight.data(), bias.defined() ? bias.data() : Tensor());
  return record(
      "linear", std::move(y), {x, weight, bias},
      [x = saved_for(weight, x), weight = saved_for(x, weight)](Tensor dy, Gradients& dx) {
        dx.write(2, [&](Tensor& db, bool accumulate) { core::linear_backward_bias(dy, db, accumulate); });
        dx.write(1, [&](Tensor& dw, bool accumulate) { core::linear_backward_weight(dy, x.get(), dw, accumulate); });
        if (dx.needs(0)) dx.add(0, core::linear_backward_input(dy, weight.get()));
      });
}

}  // namespace tandem::autograd
