// Fill with one value.
#pragma once

#include "tandem/core/tensor.h"

namespace tandem::core {

/// Every element becomes `value`, converted to the tensor's dtype.
void fill(Tensor& tensor, double value);

namespace kernels {
template <DeviceType>
void fill(Tensor& tensor, double value);
}  // namespace kernels

}  // namespace tandem::core
