// Mean over windows, and its gradient.
#pragma once

#include "tandem/core/ops/max_pool2d.h"

namespace tandem::core {

/// x [N, C, H, W] -> [N, C, OH, OW] in the memory order of x; float32, float64, bfloat16 (summed in float).
/// `count_include_pad`: padding counts as zeros in the mean; otherwise only what lies inside x counts.
Tensor avg_pool2d(const Tensor& x, const Pool2dOptions& options, bool count_include_pad = true);
Tensor avg_pool2d_backward(const Tensor& dy, const Shape& input_shape, const Pool2dOptions& options,
                           bool count_include_pad = true);

/// Windows that divide the input evenly into `output` (height, width); {1, 1} is global pooling.
Tensor adaptive_avg_pool2d(const Tensor& x, std::array<std::int64_t, 2> output);
/// The size of the output is dy's.
Tensor adaptive_avg_pool2d_backward(const Tensor& dy, const Shape& input_shape);

namespace kernels {
// All tensors of a call are dense and in the memory order `format`.
template <DeviceType>
void avg_pool2d(const Tensor& x, const PoolWindows& windows, MemoryFormat format, Tensor& output);
template <DeviceType>
void avg_pool2d_backward(const Tensor& dy, const PoolWindows& windows, MemoryFormat format, Tensor& dx);
}  // namespace kernels

}  // namespace tandem::core
