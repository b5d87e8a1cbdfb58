// Matrix product, with batch dimensions.
#pragma once

#include "tandem/core/tensor.h"

namespace tandem::core {

/// [..., M, K] x [..., K, N] -> [..., M, N]. Ranks from 2 on; the dimensions before the last two are broadcast by
/// NumPy's rule. float32, float64, bfloat16 (summed in float). Transposed operands cost no copy. K = 0 gives zeros.
/// Throws where inner dimensions, dtypes or ranks do not fit.
Tensor matmul(const Tensor& a, const Tensor& b);

/// The same into `out`, overwriting it or adding to it, whatever its strides (rows or columns without a step are
/// written in place). For bfloat16 operands `out` may also be float32. It must not overlap the operands.
void matmul_into(const Tensor& a, const Tensor& b, Tensor& out, bool accumulate);

namespace kernels {
/// Batch dimensions of a and b are already those of out (stride 0 where broadcast).
template <DeviceType>
void matmul(const Tensor& a, const Tensor& b, Tensor& out, bool accumulate);
}  // namespace kernels

}  // namespace tandem::core
