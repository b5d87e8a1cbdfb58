// Copy between tensors of one shape: any strides, any dtypes (values are converted; float to integer truncates).
#pragma once

#include "tandem/core/tensor.h"

namespace tandem::core {

/// destination = source; the two may overlap. Throws where shapes differ, or where elements of the destination share
/// memory.
void copy(const Tensor& source, Tensor& destination);

namespace kernels {
template <DeviceType>
void copy(const Tensor& source, Tensor& destination);
}  // namespace kernels

}  // namespace tandem::core
