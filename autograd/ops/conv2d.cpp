#include "tandem/core/ops/conv2d.h"

#include "tandem/autograd/node.h"
#include "tandem/autograd/ops.h"

namespace tandem::autograd {

// With the activation fused, the gradient first passes it (dy * [y > 0]), in one pass with the sum that is the bias's
// gradient.
Variable conv2d(const Variable& x, const Variable& weight, const Variable& bias, const core::Conv2dOptions& options) {
  Tensor y = core::conv2d(x.data(), weight.data(), bias.defined() ? bias.data() : Tensor(), options);
  const bool relu = options.activation == core::Activation::relu;
  return record("conv2d", y, {x, weight, bias},
                [x = saved_for(weight, x), weight = saved_for(x, weight), y = relu ? SavedTensor(y) : SavedTensor(),
                 shape = x.shape(), options, relu](Tensor dy, Gradients& dx) {
                  if (relu) {
                    GradientMemory db = dx.memory(2);
                    dy = core::conv2d_relu_backward(std::move(dy), y.get(), db.tensor, db.accumulate);
                    dx.commit(2, std::move(db));
                  } else {
                    dx.write(2, [&](Tensor& db, bool accumulate) { core::conv2d_backward_bias(dy, db, accumulate); });
                  }
                  dx.write(1, [&](Tensor& dw, bool accumulate) {
                    core::conv2d_backward_weight(dy, x.get(), dw, accumulate, options);
                  });
                  if (dx.needs(0)) dx.add(0, core::conv2d_backward_input(dy, weight.get(), shape, options));
                });
}

}  // namespace tandem::autograd
