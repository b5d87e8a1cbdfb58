#include "tandem/core/ops/batch_norm.h"

#include "tandem/autograd/ops.h"
#include "tandem/autograd/ops/weight_and_bias.h"

namespace tandem::autograd {
namespace {

core::BatchNormFusion tensors_of(const BatchNormFusion& fusion) {
  return {.relu = fusion.relu, .residual = tensor_or_none(fusion.residual)};
}

// What the fusion keeps for backward, beside what batch norm itself does. y is the next layer's input and costs no
// memory there.
class SavedFusion {
 public:
  SavedFusion(const BatchNormFusion& fusion, const Variable& bias, const Tensor& y)
      : relu_(fusion.relu),
        bias_(fusion.relu && !fusion.residual.defined() ? SavedTensor(tensor_or_none(bias)) : SavedTensor()),
        y_(fusion.relu && fusion.residual.defined() ? SavedTensor(y) : SavedTensor()) {}

  core::BatchNormFusionBackward get(Tensor* dresidual) const {
    return {.relu = relu_, .bias = bias_.get(), .output = y_.get(), .dresidual = dresidual};
  }

 private:
  bool relu_;
  SavedTensor bias_, y_;
};

// With a residual the output is kept in any case (SavedFusion), or would need the residual kept.
bool may_recompute(const BatchNormFusion& fusion) { return fusion.recompute && !fusion.residual.defined(); }

// Runs `kernel(dweight, dbias, accumulate, fusion)`, which returns dx, on the memory of inputs 1 and 2.
template <class Kernel>
void send_gradients(Gradients& dx, const SavedFusion& fusion, Kernel&& kernel) {
  Tensor dresidual, dinput;
  write_weight_and_bias(dx, 1, [&](Tensor& dweight, Tensor& dbias, bool accumulate) {
    dinput = kernel(dweight, dbias, accumulate, fusion.get(dx.needs(3) ? &dresidual : nullptr));
  });
  dx.add(0, std::move(dinput));
  dx.add(3, std::move(dresidual));
}

}  // namespace

Variable batch_norm_training(const Variable& x, const Variable& weight, const Variable& bias, double eps,
                             BatchStatistics* statistics, const BatchNormFusion& fusion) {
  core::BatchNormForward f =
      core::batch_norm_training(x.data(), tensor_or_none(weight), tensor_or_none(bias), eps, tensors_of(fusion));
  if (statistics != nullptr) *statistics = {f.mean, f.variance};
  Variable y =
      record("batch_norm", f.output, {x, weight, bias, fusion.residual},
             [x = SavedTensor(x.data()), weight = SavedTensor(tensor_or_none(weight)), mean = SavedTensor(f.mean),
              inv_std = SavedTensor(f.inv_std), saved = SavedFusion(fusion, bias, f.output)](Tensor dy, Gradients& dx) {
               send_gradients(dx, saved, [&](Tensor& dweight, Tensor& dbias, bool accumulate, const auto& fused) {
                 return core::batch_norm_backward(std::move(dy), x.get(), weight.get(), mean.get(), inv_std.get(),
                                                  dweight, dbias, accumulate, fused);
               });
             });
  if (may_recompute(fusion))
    offer_recipe(y, [x = SavedTensor(x.data()), weight = SavedTensor(tensor_or_none(weight)),
                     bias = SavedTensor(tensor_or_none(bias)), mean = SavedTensor(f.mean),
                     inv_std = SavedTensor(f.inv_std), relu = fusion.relu] {
      return core::batch_norm_again(x.get(), weight.get(), bias.get(), mean.get(), inv_std.get(), relu);
    });
  return y;
}

Variable batch_norm_inference(const Variable& x, const Variable& weight, const Variable& bias,
                              const Tensor& running_mean, const Tensor& running_variance, double eps,
                              const BatchNormFusion& fusion) {
  Tensor output = core::batch_norm_inference(x.data(), tensor_or_none(weight), tensor_or_none(bias), running_mean,
                                             running_variance, eps, tensors_of(fusion));
  Variable y =
      record("batch_norm_inference", output, {x, weight, bias, fusion.residual},
             [x = SavedTensor(x.data()), weight = SavedTensor(tensor_or_none(weight)), mean = SavedTensor(running_mean),
              variance = SavedTensor(running_variance), eps,
              saved = SavedFusion(fusion, bias, output)](Tensor dy, Gradients& dx) {
               send_gradients(dx, saved, [&](Tensor& dweight, Tensor& dbias, bool accumulate, const auto& fused) {
                 return core::batch_norm_inference_backward(std::move(dy), x.get(), weight.get(), mean.get(),
                                                            variance.get(), eps, dweight, dbias, accumulate, fused);
               });
             });
  if (may_recompute(fusion))
    offer_recipe(y, [x = SavedTensor(x.data()), weight = SavedTensor(tensor_or_none(weight)),
                     bias = SavedTensor(tensor_or_none(bias)), mean = SavedTensor(running_mean),
                     variance = SavedTensor(running_variance), eps, relu = fusion.relu] {
      return core::batch_norm_inference(x.get(), weight.get(), bias.get(), mean.get(), variance.get(), eps,
                                        {.relu = relu});
    });
  return y;
}

}  // namespace tandem::autograd
