// Batch normalisation of x [N, C] or [N, C, H, W]: each channel is brought to mean 0 and variance 1 over N (and H, W).
//
//   y = (x - mean) inv_std weight + bias,   inv_std = 1 / sqrt(variance + eps)
//
// Source: Ioffe and Szegedy, "Batch normalization", ICML 2015; biased variance for y, as there and in PyTorch.
// Statistics are summed in chunks and merged in float64, so they are sound for means far from 0 and the same bits for
// any number of threads.
#pragma once

#include "tandem/core/tensor.h"

namespace tandem::core {

/// The three statistics are [C], float64 for float64 x, else float32.
struct BatchNormForward {
  Tensor output;
  Tensor mean;
  Tensor inv_std;
  Tensor variance;  ///< biased: over M = N H W values, divided by M. Times M / (M - 1) it is what running statistics
                    ///< take in.
};

/// weight and bias: [C], any floating dtype, or undefined (1 and 0). Output has the memory order of x where x is
/// channels-last (the fastest) or contiguous, else it is contiguous. Throws where shapes do not fit or there are fewer
/// than two values per channel.
BatchNormForward batch_norm_training(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps);

/// The same with given statistics [C], which are constants.
Tensor batch_norm_inference(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& running_mean,
                            const Tensor& running_variance, double eps);

/// Returns dx, laid out as the output was. With h = (x - mean) inv_std and averages over M values:
///   dbias = sum dy,   dweight = sum dy h,   dx = weight inv_std (dy - dbias / M - h dweight / M)
/// dweight and dbias [C] may have any strides and floating dtype; they are added to where `accumulate`, else
/// overwritten; undefined ones are skipped.
Tensor batch_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& mean,
                           const Tensor& inv_std, Tensor& dweight, Tensor& dbias, bool accumulate);

/// Gradient of batch_norm_inference: dx = weight inv_std dy.
Tensor batch_norm_inference_backward(const Tensor& dy, const Tensor& x, const Tensor& weight,
                                     const Tensor& running_mean, const Tensor& running_variance, double eps,
                                     Tensor& dweight, Tensor& dbias, bool accumulate);

/// How kernels see x: element (o, c, i) lies at (o * channels + c) * inner + i.
struct BatchNormLayout {
  std::int64_t outer, channels, inner;
};

namespace cpu {
// x, dy, outputs: dense and of one layout. Vectors [C] are contiguous and of the compute type; weight and bias may be
// undefined.
void batch_norm_statistics(const Tensor& x, const BatchNormLayout& layout, Tensor& mean, Tensor& variance);
void batch_norm_inv_std(const Tensor& variance, double eps, Tensor& inv_std);
void batch_norm_apply(const Tensor& x, const BatchNormLayout& layout, const Tensor& mean, const Tensor& inv_std,
                      const Tensor& weight, const Tensor& bias, Tensor& output);
/// sums: float64 [2, C], sum dy and sum dy h.
void batch_norm_sums(const Tensor& dy, const Tensor& x, const BatchNormLayout& layout, const Tensor& mean,
                     const Tensor& inv_std, Tensor& sums);
/// gradient [C], of any strides and floating dtype, = or += sum (float64 [C]).
void batch_norm_parameter_gradient(const Tensor& sum, Tensor& gradient, bool accumulate);
/// Undefined sums: statistics are constants.
void batch_norm_dx(const Tensor& dy, const Tensor& x, const BatchNormLayout& layout, const Tensor& mean,
                   const Tensor& inv_std, const Tensor& weight, const Tensor& sums, Tensor& dx);
}  // namespace cpu

}  // namespace tandem::core
