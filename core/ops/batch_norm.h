// Batch normalisation of x [N, C] or [N, C, H, W]: each channel is brought to mean 0 and variance 1 over N (and H, W).
// What usually follows, adding a residual and ReLU, is done in the same pass.
//
//   z = (x - mean) inv_std weight + bias + residual,   inv_std = 1 / sqrt(variance + eps),   y = relu(z)
//
// Source: Ioffe and Szegedy, "Batch normalization", ICML 2015; biased variance for y, as there and in PyTorch.
// Statistics are summed in chunks and merged in float64, so they are sound for means far from 0 and the same bits for
// any number of threads.
#pragma once

#include <tuple>

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

/// What follows the normalisation.
struct BatchNormFusion {
  bool relu = false;
  Tensor residual{};  ///< shape and dtype of x; undefined: none
};

/// weight and bias: [C], any floating dtype, or undefined (1 and 0). Output has the memory order of x where x is
/// channels-last (the fastest) or contiguous, else it is contiguous. Throws Error if shapes do not fit. One value per
/// channel is its own mean, so h is 0, and so are dx and dweight. No values have mean 0 and variance 1, so that nothing
/// that is made of them is NaN.
BatchNormForward batch_norm_training(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                                     const BatchNormFusion& fusion = {});

/// The output of a batch_norm_training without a residual once more, from what that found: the same bits.
Tensor batch_norm_again(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& mean,
                        const Tensor& inv_std, bool relu);

/// batch_norm_training with given statistics [C], which are constants.
Tensor batch_norm_inference(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& running_mean,
                            const Tensor& running_variance, double eps, const BatchNormFusion& fusion = {});

/// The fusion, seen from backward, where dz = dy [y > 0]. Without a residual the sign of y is computed again from x,
/// which backward needs anyway: nothing else has to be kept. With one, it is that of the output.
struct BatchNormFusionBackward {
  bool relu = false;
  Tensor bias{};                ///< the forward's, which may have been undefined; for ReLU without a residual
  Tensor output{};              ///< the forward's; for ReLU with a residual
  Tensor* dresidual = nullptr;  ///< where to put the residual's gradient, dz; nullptr: not wanted
};

/// Returns dx, laid out as the output was. With h = (x - mean) inv_std and averages over M values:
///   dbias = sum dz,   dweight = sum dz h,   dx = weight inv_std (dz - dbias / M - h dweight / M)
/// dweight and dbias [C] may have any strides and floating dtype; they are added to where `accumulate`, else
/// overwritten; undefined ones are skipped. Works in dy's own memory where dy is the only tensor that sees it: move it
/// in.
Tensor batch_norm_backward(Tensor dy, const Tensor& x, const Tensor& weight, const Tensor& mean, const Tensor& inv_std,
                           Tensor& dweight, Tensor& dbias, bool accumulate, const BatchNormFusionBackward& fusion = {});

/// Gradient of batch_norm_inference: dx = weight inv_std dz.
Tensor batch_norm_inference_backward(Tensor dy, const Tensor& x, const Tensor& weight, const Tensor& running_mean,
                                     const Tensor& running_variance, double eps, Tensor& dweight, Tensor& dbias,
                                     bool accumulate, const BatchNormFusionBackward& fusion = {});

/// How kernels see x: element (o, c, i) lies at (o * channels + c) * inner + i.
struct BatchNormLayout {
  std::int64_t outer, channels, inner;
};

/// Operands of the kernels: x and what is laid out as it is are dense and of one layout, vectors [C] are contiguous and
/// of the compute type. weight and bias may be undefined.
struct BatchNormOperands {
  Tensor x;
  BatchNormLayout layout;
  Tensor mean, inv_std, weight, bias;
  bool relu = false;

  static constexpr std::tuple kTensors{&BatchNormOperands::x, &BatchNormOperands::mean, &BatchNormOperands::inv_std,
                                       &BatchNormOperands::weight, &BatchNormOperands::bias};
};

namespace kernels {
template <DeviceType>
void batch_norm_statistics(const Tensor& x, const BatchNormLayout& layout, Tensor& mean, Tensor& variance);
template <DeviceType>
void batch_norm_inv_std(const Tensor& variance, double eps, Tensor& inv_std);
/// residual may be undefined.
template <DeviceType>
void batch_norm_apply(const BatchNormOperands& given, const Tensor& residual, Tensor& output);
/// `sums`, float64 [2, C]: sum dz and sum dz h; undefined: not wanted. `training`: dx takes them in.
/// `output`, defined where there was a residual before a ReLU: dz is found by it, and stored. dz may be dy, and dx may
/// be dy or dz.
template <DeviceType>
void batch_norm_backward(const BatchNormOperands& given, const Tensor& dy, const Tensor& output, bool training,
                         Tensor& sums, Tensor& dz, Tensor& dx);
/// gradient [C], of any strides and floating dtype, = or += sum (float64 [C]).
template <DeviceType>
void batch_norm_parameter_gradient(const Tensor& sum, Tensor& gradient, bool accumulate);
}  // namespace kernels

}  // namespace tandem::core
