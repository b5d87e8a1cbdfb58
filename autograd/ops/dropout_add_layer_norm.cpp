#include "tandem/core/ops/dropout_add_layer_norm.h"

#include "tandem/autograd/ops.h"
#include "tandem/autograd/ops/weight_and_bias.h"

namespace tandem::autograd {

Variable dropout_add_layer_norm(const Variable& x, const Variable& residual, const Variable& weight,
                                const Variable& bias, double eps, double p, const core::PhiloxStream& stream) {
  core::DropoutAddLayerNormForward f = core::dropout_add_layer_norm(x.data(), residual.data(), tensor_or_none(weight),
                                                                    tensor_or_none(bias), eps, p, stream);
  return record(
      "dropout_add_layer_norm", std::move(f.output), {x, residual, weight, bias},
      [sum = SavedTensor(f.sum), mask = SavedTensor(f.mask), mean = SavedTensor(f.mean),
       inv_std = SavedTensor(f.inv_std), weight = SavedTensor(tensor_or_none(weight)), p](Tensor dy, Gradients& dx) {
        write_weight_and_bias(dx, 2, [&](Tensor& dweight, Tensor& dbias, bool accumulate) {
          const core::DropoutAddLayerNormForward forward{
              .output = {}, .sum = sum.get(), .mask = mask.get(), .mean = mean.get(), .inv_std = inv_std.get()};
          core::DropoutAddGradients gradients = core::dropout_add_layer_norm_backward(
              std::move(dy), forward, weight.get(), p, dweight, dbias, accumulate);
          dx.add(0, std::move(gradients.x));
          dx.add(1, std::move(gradients.residual));
        });
      });
}

}  // namespace tandem::autograd
