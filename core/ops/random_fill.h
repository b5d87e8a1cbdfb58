// Fill with random numbers. Element i gets what its place in the stream gives, whatever the number of threads.
#pragma once

#include "tandem/core/random.h"
#include "tandem/core/tensor.h"

namespace tandem::core {

/// Uniform in [low, high), on multiples of 2^-24 of the width (float32, bfloat16) or 2^-53 (float64). Throws Error if
/// the tensor is not contiguous or has another dtype, or the range is not finite.
void fill_uniform(Tensor& out, double low, double high, const PhiloxStream& stream);
/// Normal by Box and Muller's transform.
void fill_normal(Tensor& out, double mean, double deviation, const PhiloxStream& stream);

namespace kernels {
template <DeviceType>
void fill_uniform(Tensor& out, double low, double high, const PhiloxStream& stream);
template <DeviceType>
void fill_normal(Tensor& out, double mean, double deviation, const PhiloxStream& stream);
}  // namespace kernels

}  // namespace tandem::core
