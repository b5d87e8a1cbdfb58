// Copy between tensors of one shape: any strides, any dtypes (values are converted; float to integer truncates).
#pragma once

#include "tandem/core/tensor.h"

namespace tandem::core {

/// destination = source. Throws where shapes differ.
void copy(const Tensor& source, Tensor& destination);

namespace cpu {
void copy(const Tensor& source, Tensor& destination);
}

}  // namespace tandem::core
