#include "tandem/core/ops/batch_norm.h"

#include "tandem/autograd/ops.h"
#include "tandem/autograd/ops/weight_and_bias.h"

namespace tandem::autograd {
Variable batch_norm_training(const Variable& x, const Variable& weight, const Variable& bias, double eps,
                             BatchStatistics* statistics) {
  core::BatchNormForward f = core::batch_norm_training(x.data(), tensor_or_none(weight), tensor_or_none(bias), eps);
  if (statistics != nullptr) *statistics = {f.mean, f.variance};
  return record("batch_norm", std::move(f.output), {x, weight, bias},
                [x = SavedTensor(x.data()), weight = SavedTensor(tensor_or_none(weight)), mean = SavedTensor(f.mean),
                 inv_std = SavedTensor(f.inv_std)](Tensor dy, Gradients& dx) {
                  write_weight_and_bias(dx, 1, [&](Tensor& dweight, Tensor& dbias, bool accumulate) {
                    dx.add(0, core::batch_norm_backward(dy, x.get(), weight.get(), mean.get(), inv_std.get(), dweight,
                                                        dbias, accumulate));
                  });
                });
}

Variable batch_norm_inference(const Variable& x, const Variable& weight, const Variable& bias,
                              const Tensor& running_mean, const Tensor& running_variance, double eps) {
  Tensor y = core::batch_norm_inference(x.data(), tensor_or_none(weight), tensor_or_none(bias), running_mean,
                                        running_variance, eps);
  return record(
      "batch_norm_inference", std::move(y), {x, weight, bias},
      [x = SavedTensor(x.data()), weight = SavedTensor(tensor_or_none(weight)), mean = SavedTensor(running_mean),
       variance = SavedTensor(running_variance), eps](Tensor dy, Gradients& dx) {
        write_weight_and_bias(dx, 1, [&](Tensor& dweight, Tensor& dbias, bool accumulate) {
          dx.add(0, core::batch_norm_inference_backward(dy, x.get(), weight.get(), mean.get(), variance.get(), eps,
                                                        dweight, dbias, accumulate));
        });
      });
}

}  // namespace tandem::autograd
