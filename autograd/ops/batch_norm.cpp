#include "tandem/core/ops/batch_norm.h"

#include "tandem/autograd/node.h"
#include "tandem/autograd/ops.h"

namespace tandem::autograd {
namespace {

Tensor tensor_or_none(const Variable& v) { return v.defined() ? v.data() : Tensor(); }

// The kernel writes both parameter gradients in one pass and in one mode. Where one is to be overwritten and the other
// added to (its owner set it to none alone), the first is zeroed, and both are added to.
void use_one_mode(GradientMemory& a, GradientMemory& b) {
  if (!a.tensor.defined() || !b.tensor.defined() || a.accumulate == b.accumulate) return;
  for (GradientMemory* memory : {&a, &b}) {
    if (!memory->accumulate) memory->tensor.fill(0);
    memory->accumulate = true;
  }
}

// Runs `kernel(dweight, dbias, accumulate)` on the memory of inputs 1 and 2.
template <class Kernel>
void write_weight_and_bias(Gradients& dx, Kernel&& kernel) {
  GradientMemory dweight = dx.memory(1), dbias = dx.memory(2);
  use_one_mode(dweight, dbias);
  kernel(dweight.tensor, dbias.tensor, dweight.accumulate || dbias.accumulate);
  dx.commit(1, std::move(dweight));
  dx.commit(2, std::move(dbias));
}

}  // namespace

Variable batch_norm_training(const Variable& x, const Variable& weight, const Variable& bias, double eps,
                             BatchStatistics* statistics) {
  core::BatchNormForward f = core::batch_norm_training(x.data(), tensor_or_none(weight), tensor_or_none(bias), eps);
  if (statistics != nullptr) *statistics = {f.mean, f.variance};
  return record("batch_norm", std::move(f.output), {x, weight, bias},
                [x = SavedTensor(x.data()), weight = SavedTensor(tensor_or_none(weight)), mean = SavedTensor(f.mean),
                 inv_std = SavedTensor(f.inv_std)](Tensor dy, Gradients& dx) {
                  write_weight_and_bias(dx, [&](Tensor& dweight, Tensor& dbias, bool accumulate) {
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
        write_weight_and_bias(dx, [&](Tensor& dweight, Tensor& dbias, bool accumulate) {
          dx.add(0, core::batch_norm_inference_backward(dy, x.get(), weight.get(), mean.get(), variance.get(), eps,
                                                        dweight, dbias, accumulate));
        });
      });
}

}  // namespace tandem::autograd
