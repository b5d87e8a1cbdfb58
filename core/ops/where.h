// A choice between two tensors, element by element.
#pragma once

#include "tandem/core/tensor.h"

namespace tandem::core {

/// a where `condition` (bool) holds, b elsewhere. All three broadcast; a and b have one dtype, any of them. The result
/// is laid out as the first of a, b, condition that has the full shape and is dense, else contiguous.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);

namespace kernels {
template <DeviceType>
void where(const Tensor& condition, const Tensor& a, const Tensor& b, Tensor& out);
}  // namespace kernels

}  // namespace tandem::core
