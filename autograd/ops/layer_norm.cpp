#include "tandem/core/ops/layer_norm.h"

#include "tandem/autograd/ops.h"
#include "tandem/autograd/ops/weight_and_bias.h"

namespace tandem::autograd {

Variable layer_norm(const Variable& x, const Variable& weight, const Variable& bias, double eps) {
  core::LayerNormForward f = core::layer_norm(x.data(), tensor_or_none(weight), tensor_or_none(bias), eps);
  return record("layer_norm", std::move(f.output), {x, weight, bias},
                [x = SavedTensor(x.data()), weight = SavedTensor(tensor_or_none(weight)), mean = SavedTensor(f.mean),
                 inv_std = SavedTensor(f.inv_std)](Tensor dy, Gradients& dx) {
                  write_weight_and_bias(dx, 1, [&](Tensor& dweight, Tensor& dbias, bool accumulate) {
                    dx.add(0, core::layer_norm_backward(std::move(dy), x.get(), weight.get(), mean.get(), inv_std.get(),
                                                        dweight, dbias, accumulate));
                  });
                });
}

}  // namespace tandem::autograd
