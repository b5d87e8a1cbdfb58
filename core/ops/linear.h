// The affine map y = x W^T + b over the last dimension, and its gradients.
#pragma once

#include "tandem/core/tensor.h"

namespace tandem::core {

/// x [..., in], weight [out, in], bias [out] or undefined -> [..., out]. float32, float64, bfloat16 (summed in float).
/// Throws where dtypes differ or sizes do not fit.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias);

/// dx = dy W: dy [..., out] -> [..., in].
Tensor linear_backward_input(const Tensor& dy, const Tensor& weight);

/// dW = dy^T x into `dweight` [out, in] (any strides), overwriting it or adding to it. dweight may be float32 where dy
/// is bfloat16.
void linear_backward_weight(const Tensor& dy, const Tensor& x, Tensor& dweight, bool accumulate);

/// db = the sum of dy over all but the last dimension into `dbias` [out]; float32 is allowed where dy is bfloat16.
/// The same bits for any number of threads.
void linear_backward_bias(const Tensor& dy, Tensor& dbias, bool accumulate);

namespace cpu {
// x and dy are [rows, in] and [rows, out] here.
void linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& y);
void linear_backward_input(const Tensor& dy, const Tensor& weight, Tensor& dx);
void linear_backward_weight(const Tensor& dy, const Tensor& x, Tensor& dweight, bool accumulate);
void linear_backward_bias(const Tensor& dy, Tensor& dbias, bool accumulate);
}  // namespace cpu

}  // namespace tandem::core
