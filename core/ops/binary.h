// Arithmetic and comparison of two tensors, element by element, with NumPy's broadcasting.
//
// Both operands have one dtype. The result is laid out as the first operand that has the full shape and is dense, else
// contiguous.
#pragma once

#include <cstdint>

#include "tandem/core/tensor.h"

namespace tandem::core {

// float32, float64, bfloat16 (computed in float), int64, int32. Integers wrap around on overflow.
Tensor add(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
/// Integers: the quotient is truncated towards zero, and a zero in b throws.
Tensor div(const Tensor& a, const Tensor& b);
/// NaN where either is NaN.
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);

// All dtypes; the result is bool. A comparison with NaN is false, but for not_equal.
Tensor equal(const Tensor& a, const Tensor& b);
Tensor not_equal(const Tensor& a, const Tensor& b);
Tensor less(const Tensor& a, const Tensor& b);
Tensor less_equal(const Tensor& a, const Tensor& b);
Tensor greater(const Tensor& a, const Tensor& b);
Tensor greater_equal(const Tensor& a, const Tensor& b);

/// a += b in place; b broadcasts to a. Any strides; b may see the same memory as a.
void accumulate(Tensor& a, const Tensor& b);

enum class BinaryOp : std::uint8_t { add, sub, mul, div, maximum, minimum };
enum class CompareOp : std::uint8_t { equal, not_equal, less, less_equal, greater, greater_equal };

namespace kernels {
// a and b broadcast to out. out may be a.
template <DeviceType>
void binary(BinaryOp op, const Tensor& a, const Tensor& b, Tensor& out);
template <DeviceType>
void compare(CompareOp op, const Tensor& a, const Tensor& b, Tensor& out);
template <DeviceType>
void accumulate(Tensor& a, const Tensor& b);
}  // namespace kernels

}  // namespace tandem::core
