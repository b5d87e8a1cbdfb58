// Softmax and its logarithm along one dimension.
//
//   softmax(x)_i = exp(x_i - m) / s,   log_softmax(x)_i = (x_i - m) - log(s),   m = max_k x_k,   s = sum_k exp(x_k - m)
//
// Subtracting the maximum keeps every exponential at most 1, so large values of either sign are harmless. -inf gets
// probability 0 (log: -inf). A row that is all -inf, or that holds +inf or NaN, gives NaN throughout, as in PyTorch.
#pragma once

#include "tandem/core/tensor.h"

namespace tandem::core {

/// Any floating dtype, any `dim` (negative from the back), any layout; fastest where `dim` is adjacent in memory. The
/// result has the memory order of x where x is dense, else it is contiguous. A scalar counts as one row of one element.
Tensor softmax(const Tensor& x, int dim);
Tensor log_softmax(const Tensor& x, int dim);

/// Gradients from the result y, laid out as y: dx = y (dy - sum(dy y)), and dx = dy - exp(y) sum(dy).
Tensor softmax_backward(const Tensor& dy, const Tensor& y, int dim);
Tensor log_softmax_backward(const Tensor& dy, const Tensor& y, int dim);

namespace kernels {
// All tensors of one call are dense, of one memory order, and not empty.
template <DeviceType>
void softmax(const Tensor& x, int dim, Tensor& y);
template <DeviceType>
void log_softmax(const Tensor& x, int dim, Tensor& y);
template <DeviceType>
void softmax_backward(const Tensor& dy, const Tensor& y, int dim, Tensor& dx);
template <DeviceType>
void log_softmax_backward(const Tensor& dy, const Tensor& y, int dim, Tensor& dx);
}  // namespace kernels

}  // namespace tandem::core
