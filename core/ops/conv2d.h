// Two-dimensional convolution (cross-correlation, as in all of deep learning) and its gradients.
//
//   y[n, o, i, j] = bias[o] + sum over c, p, q of weight[o, c, p, q] * x[n, c, i * stride - padding + p * dilation,
//   ...]
//
// Activations are channels-last in memory: results always are, inputs that are not get converted first, and that is
// counted.
#pragma once

#include <array>
#include <cstdint>

#include "tandem/core/tensor.h"

namespace tandem::core {

enum class Activation : std::uint8_t { none, relu };

/// Pairs are (height, width).
struct Conv2dOptions {
  std::array<std::int64_t, 2> stride{1, 1};
  std::array<std::int64_t, 2> padding{0, 0};
  std::array<std::int64_t, 2> dilation{1, 1};
  std::int64_t groups = 1;
  Activation activation =
      Activation::none;  ///< applied to the result of conv2d; gradients below are of what lies before it
};

/// [N, O, OH, OW] for x [N, C, H, W] and weight [O, C / groups, KH, KW]. Throws where they do not fit, naming both.
Shape conv2d_shape(const Shape& x, const Shape& weight, const Conv2dOptions& options);

// All are float32, float64 or bfloat16 (summed in float). Where activations (x, y, dx, dy) are bfloat16, weights,
// biases and their gradients may be float32: weights are rounded when they are packed.

/// bias [O] or undefined. In x's dtype. Throws where shapes or dtypes do not fit. The activation is that of
/// core/ops/unary.h, NaN included.
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dOptions& options = {});

/// dx [N, C, H, W] = `input_shape`.
Tensor conv2d_backward_input(const Tensor& dy, const Tensor& weight, const Shape& input_shape,
                             const Conv2dOptions& options = {});

/// Into `dweight` (any strides), overwriting it or adding to it.
void conv2d_backward_weight(const Tensor& dy, const Tensor& x, Tensor& dweight, bool accumulate,
                            const Conv2dOptions& options = {});

/// The sum of dy over N, H and W into `dbias` [C]. The same bits for any number of threads.
void conv2d_backward_bias(const Tensor& dy, Tensor& dbias, bool accumulate);

/// Backward through the fused ReLU: dy where y > 0, else 0; in the same pass its sum over N, H and W goes into `dbias`,
/// if that is defined. Works in dy's own memory where dy is the only tensor that sees it: move it in.
Tensor conv2d_relu_backward(Tensor dy, const Tensor& y, Tensor& dbias, bool accumulate);

/// Conversions of memory order since the process began; what a well-kept network does not need.
struct ReorderStatistics {
  std::uint64_t activations = 0;  ///< inputs that came without channels-last order
  std::uint64_t weights = 0;      ///< right sides packed for a kernel: weights twice per use and step at most
};
ReorderStatistics reorder_statistics();

namespace kernels {
template <DeviceType>
void conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dOptions& options, Tensor& y);
template <DeviceType>
void conv2d_backward_input(const Tensor& dy, const Tensor& weight, const Conv2dOptions& options, Tensor& dx);
template <DeviceType>
void conv2d_backward_weight(const Tensor& dy, const Tensor& x, Tensor& dweight, bool accumulate,
                            const Conv2dOptions& options);
/// dy and y channels-last, written to `masked` (which may be dy).
template <DeviceType>
void conv2d_relu_backward(const Tensor& dy, const Tensor& y, Tensor& masked, Tensor& dbias, bool accumulate);
}  // namespace kernels

namespace cpu {
ReorderStatistics reorder_statistics();
}  // namespace cpu

}  // namespace tandem::core
