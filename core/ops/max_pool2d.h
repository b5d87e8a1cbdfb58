// Maximum over windows, and its gradient.
#pragma once

#include "tandem/core/ops/pool_windows.h"

namespace tandem::core {

struct MaxPool2dResult {
  Tensor output;   ///< [N, C, OH, OW], in the memory order of x
  Tensor indices;  ///< of its shape: where in its window the maximum lies; uint8 if windows have up to 256 places, else
                   ///< int32
};

/// x [N, C, H, W]; float32, float64, bfloat16. The first of equal maxima wins; NaN wins over everything.
/// Throws where H or W is 0, a window is larger than the padded input, or the padding larger than half the window.
MaxPool2dResult max_pool2d(const Tensor& x, const Pool2dOptions& options);

/// dx of shape `input_shape`: each dy goes to the place that `indices` names. `options` are those of the forward.
Tensor max_pool2d_backward(const Tensor& dy, const Tensor& indices, const Shape& input_shape,
                           const Pool2dOptions& options);

/// Windows that divide the input evenly into `output` (height, width).
MaxPool2dResult adaptive_max_pool2d(const Tensor& x, std::array<std::int64_t, 2> output);
/// The size of the output is dy's.
Tensor adaptive_max_pool2d_backward(const Tensor& dy, const Tensor& indices, const Shape& input_shape);

namespace kernels {
// All tensors of a call are dense and in the memory order `format`.
template <DeviceType>
void max_pool2d(const Tensor& x, const PoolWindows& windows, MemoryFormat format, Tensor& output, Tensor& indices);
template <DeviceType>
void max_pool2d_backward(const Tensor& dy, const Tensor& indices, const PoolWindows& windows, MemoryFormat format,
                         Tensor& dx);
}  // namespace kernels

}  // namespace tandem::core
