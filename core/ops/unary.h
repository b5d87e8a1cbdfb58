// Operators on one tensor, element by element, and the gradients of those that are cheapest from their own result.
//
// All take float32, float64 and bfloat16 (computed in float), and any strides. The result has the shape of the input,
// and its memory order where that is dense. NaN gives NaN everywhere.
#pragma once

#include <cstdint>

#include "tandem/core/tensor.h"

namespace tandem::core {

Tensor neg(const Tensor& x);
Tensor abs(const Tensor& x);
/// -1, 0 or 1.
Tensor sign(const Tensor& x);
Tensor exp(const Tensor& x);
Tensor log(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor reciprocal(const Tensor& x);
Tensor square(const Tensor& x);
/// max(x, 0).
Tensor relu(const Tensor& x);
/// 1 / (1 + e^-x).
Tensor sigmoid(const Tensor& x);
Tensor tanh(const Tensor& x);

Tensor add_scalar(const Tensor& x, double value);
Tensor mul_scalar(const Tensor& x, double value);
/// x^exponent as std::pow has it: a negative x with a fractional exponent gives NaN, x^0 is 1.
Tensor pow_scalar(const Tensor& x, double exponent);
/// min(max(x, low), high). Throws where low > high.
Tensor clamp(const Tensor& x, double low, double high);

/// x *= factor, in place.
void scale(Tensor& x, double factor);

// Gradients with respect to the input. `dy` has the shape and dtype of the second argument; its memory is reused where
// the caller gave it away (std::move) and nobody else sees it and it lies in memory as the second argument does; else
// the result is a new tensor, laid out as the second argument.

/// dy * [y > 0], y = relu(x).
Tensor relu_backward(Tensor dy, const Tensor& y);
/// dy * y * (1 - y), y = sigmoid(x).
Tensor sigmoid_backward(Tensor dy, const Tensor& y);
/// dy * (1 - y^2), y = tanh(x).
Tensor tanh_backward(Tensor dy, const Tensor& y);
/// dy * [low <= x <= high].
Tensor clamp_backward(Tensor dy, const Tensor& x, double low, double high);

enum class UnaryOp : std::uint8_t { neg, abs, sign, exp, log, sqrt, reciprocal, square, relu, sigmoid, tanh };
enum class ScalarOp : std::uint8_t { add, mul, pow };

namespace kernels {
// x and y may be the same tensor.
template <DeviceType>
void unary(UnaryOp op, const Tensor& x, Tensor& y);
template <DeviceType>
void scalar(ScalarOp op, const Tensor& x, double value, Tensor& y);
template <DeviceType>
void clamp(const Tensor& x, double low, double high, Tensor& y);
// dx may be dy.
template <DeviceType>
void relu_backward(const Tensor& dy, const Tensor& y, Tensor& dx);
template <DeviceType>
void sigmoid_backward(const Tensor& dy, const Tensor& y, Tensor& dx);
template <DeviceType>
void tanh_backward(const Tensor& dy, const Tensor& y, Tensor& dx);
template <DeviceType>
void clamp_backward(const Tensor& dy, const Tensor& x, double low, double high, Tensor& dx);
}  // namespace kernels

}  // namespace tandem::core
