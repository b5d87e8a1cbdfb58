// The affine map y = x W^T + b over the last dimension, and its gradients.
#pragma once

#include "tandem/core/tensor.h"

namespace tandem::core {

// All are float32, float64 or bfloat16, with sums in float. Mixed precision is bfloat16 activations (x, y, dx, dy) with
// float32 weights, biases and their gradients: weights are rounded when they are packed.

/// x [..., in], weight [out, in], bias [out] or undefined -> [..., out], in x's dtype.
/// Throws where dtypes or sizes do not fit.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias);

/// dx = dy W: dy [..., out] -> [..., in].
Tensor linear_backward_input(const Tensor& dy, const Tensor& weight);

/// dW = dy^T x into `dweight` [out, in] (any strides), overwriting it or adding to it.
void linear_backward_weight(const Tensor& dy, const Tensor& x, Tensor& dweight, bool accumulate);

/// db = the sum of dy over all but the last dimension into `dbias` [out].
/// The same bits for any number of threads.
void linear_backward_bias(const Tensor& dy, Tensor& dbias, bool accumulate);

namespace kernels {
// x and dy are [rows, in] and [rows, out] here.
template <DeviceType>
void linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& y);
template <DeviceType>
void linear_backward_input(const Tensor& dy, const Tensor& weight, Tensor& dx);
template <DeviceType>
void linear_backward_weight(const Tensor& dy, const Tensor& x, Tensor& dweight, bool accumulate);
template <DeviceType>
void linear_backward_bias(const Tensor& dy, Tensor& dbias, bool accumulate);
}  // namespace kernels

}  // namespace tandem::core
