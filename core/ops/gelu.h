// GELU, the Gaussian error linear unit: x times the probability that a standard normal number is below x.
//
//   none:  gelu(x) = x (1 + erf(x / sqrt 2)) / 2
//   tanh:  gelu(x) = x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
//
// Source: Hendrycks and Gimpel, "Gaussian error linear units (GELUs)", 2016. BERT has the first, GPT-2 the second.
// Both are computed without cancellation, so small results at negative x have few roundings too.
#pragma once

#include <cstdint>

#include "tandem/core/tensor.h"

namespace tandem::core {

enum class GeluApproximation : std::uint8_t { none, tanh };

/// Of each element, whatever the strides; memory order of x where that is dense. NaN gives NaN, -infinity gives 0.
Tensor gelu(const Tensor& x, GeluApproximation approximation = GeluApproximation::none);
/// dy gelu'(x), laid out as x where that is dense. Writes into dy's memory where nobody else sees it and it lies so:
/// pass it with std::move.
Tensor gelu_backward(Tensor dy, const Tensor& x, GeluApproximation approximation = GeluApproximation::none);

/// gelu(x + bias): x [..., D], bias [D] of x's dtype. The output is contiguous.
Tensor bias_gelu(const Tensor& x, const Tensor& bias, GeluApproximation approximation = GeluApproximation::none);
/// Returns dx, contiguous. dbias [D], of any strides and floating dtype, is added to where `accumulate`, else
/// overwritten; skipped where undefined. One pass over dy and x. Reuses dy's memory as above.
Tensor bias_gelu_backward(Tensor dy, const Tensor& x, const Tensor& bias, GeluApproximation approximation,
                          Tensor& dbias, bool accumulate);

namespace kernels {
template <DeviceType>
void gelu(const Tensor& x, GeluApproximation approximation, Tensor& y);
/// `dx` may be `dy`.
template <DeviceType>
void gelu_backward(const Tensor& dy, const Tensor& x, GeluApproximation approximation, Tensor& dx);
// x, dy, y, dx contiguous with at least one element; bias contiguous and of the compute type.
template <DeviceType>
void bias_gelu(const Tensor& x, const Tensor& bias, GeluApproximation approximation, Tensor& y);
template <DeviceType>
void bias_gelu_backward(const Tensor& dy, const Tensor& x, const Tensor& bias, GeluApproximation approximation,
                        Tensor& dx, Tensor& dbias, bool accumulate);
}  // namespace kernels

}  // namespace tandem::core
