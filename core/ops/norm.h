// Many tensors taken as one vector: its norm, and scaling it. Gradient clipping is made of these.
//
// Tensors are float32, float64 or bfloat16, of any strides; all lie on one device. Throws Error if this is not so.
#pragma once

#include <span>

#include "tandem/core/tensor.h"

namespace tandem::core {

/// Sum of the squares of all elements: float64 [], on their device; 0 if there is none. Squares are added in double,
/// with the same bits for any number of threads.
Tensor sum_of_squares(std::span<const Tensor> tensors);
inline Tensor sum_of_squares(const Tensor& x) { return sum_of_squares(std::span(&x, 1)); }

/// x *= factor for each tensor, in place. `factor` is float64 [], on their device.
void scale(std::span<Tensor> tensors, const Tensor& factor);

namespace kernels {
// The tensors are dense.
template <DeviceType>
void sum_of_squares(std::span<const Tensor> tensors, Tensor& sum);
template <DeviceType>
void scale(std::span<Tensor> tensors, const Tensor& factor);
}  // namespace kernels

}  // namespace tandem::core
