// Layer normalisation of x [..., D]: each row of D values is brought to mean 0 and variance 1.
//
//   y = h weight + bias,   h = (x - mean) inv_std,   inv_std = 1 / sqrt(variance + eps)
//
// Source: Ba, Kiros and Hinton, "Layer normalization", 2016; biased variance, as there and in PyTorch. Mean and
// variance are taken in two passes over a row, so they are sound for means far from 0, and y of a constant row is the
// bias exactly. Deviations beyond 1.8e19 (float64: 1.3e154) have squares that overflow: inv_std is 0 then, as in
// PyTorch.
#pragma once

#include "tandem/core/tensor.h"

namespace tandem::core {

/// The statistics have x's shape without the last dimension; float64 for float64 x, else float32.
struct LayerNormForward {
  Tensor output;
  Tensor mean;
  Tensor inv_std;
};

/// weight and bias: [D], any floating dtype and strides, or undefined (1 and 0). The output is contiguous. Throws where
/// shapes do not fit, or x has no dimension.
LayerNormForward layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps);

/// Returns dx, contiguous. With means over the D values of a row:
///   dbias = sum dy,   dweight = sum dy h   over rows,
///   dx = inv_std (g - mean(g) - h mean(g h)),   g = dy weight
/// dweight and dbias [D] may have any strides and floating dtype; they are added to where `accumulate`, else
/// overwritten; undefined ones are skipped. All in one pass over dy and x. Writes into dy's memory where nobody else
/// sees it: pass it with std::move.
Tensor layer_norm_backward(Tensor dy, const Tensor& x, const Tensor& weight, const Tensor& mean, const Tensor& inv_std,
                           Tensor& dweight, Tensor& dbias, bool accumulate);

// What the operators that end in a layer norm share.

/// Throws where `vector` (weight, bias or a gradient of theirs) is defined and not floating [D].
void check_row_vector(const char* op, const char* what, const Tensor& vector, const Tensor& x);
/// The vector as kernels take it: contiguous and of the compute type of x. Where it is undefined, all `otherwise`.
Tensor row_vector(const Tensor& vector, double otherwise, const Tensor& x);
/// Room for mean or inv_std: zeros, which is what rows without elements have.
Tensor row_statistics(const Tensor& x);

namespace kernels {
// x, dy, outputs: contiguous, with at least one element. Vectors are contiguous and of the compute type; dweight and
// dbias are as above.
template <DeviceType>
void layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps, Tensor& output, Tensor& mean,
                Tensor& inv_std);
/// `dx` may be `dy`.
template <DeviceType>
void layer_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& mean,
                         const Tensor& inv_std, Tensor& dx, Tensor& dweight, Tensor& dbias, bool accumulate);
}  // namespace kernels

}  // namespace tandem::core
