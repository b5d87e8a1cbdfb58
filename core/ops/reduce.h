// Sums, means and extremes over dimensions.
//
// Results are contiguous. Every sum has the same bits for any number of threads: what is added in which order depends
// on the shape and strides alone. float32 and bfloat16 are added in float in short chains whose results are added in
// double.
#pragma once

#include <initializer_list>
#include <span>

#include "tandem/core/tensor.h"

namespace tandem::core {

/// Sum over `dims` (negative ones count from the back; none named: all). A summed dimension becomes 1 with `keepdim`,
/// else it goes. float32, float64 and bfloat16 give the same dtype; int64, int32, uint8 and bool give int64. An empty
/// sum is 0.
Tensor sum(const Tensor& x, std::span<const int> dims, bool keepdim = false);
inline Tensor sum(const Tensor& x, std::initializer_list<int> dims, bool keepdim = false) {
  return sum(x, std::span(dims.begin(), dims.size()), keepdim);
}

/// Sum divided by the number of elements summed. float32, float64 and bfloat16. An empty mean is NaN.
Tensor mean(const Tensor& x, std::span<const int> dims, bool keepdim = false);
inline Tensor mean(const Tensor& x, std::initializer_list<int> dims, bool keepdim = false) {
  return mean(x, std::span(dims.begin(), dims.size()), keepdim);
}

/// The sum that undoes broadcasting: over the dimensions in which `shape` broadcasts to x's shape. x itself where the
/// shapes agree. Throws where `shape` does not broadcast to x's.
Tensor sum_to(const Tensor& x, const Shape& shape);

struct ValuesAndIndices {
  Tensor values;
  Tensor indices;  ///< int64: where in dimension `dim` the value stands
};

/// The largest element along `dim`, all dtypes. Of equal ones the first counts; NaN counts as larger than everything.
/// Throws where there is nothing to choose from.
ValuesAndIndices max(const Tensor& x, int dim, bool keepdim = false);
/// The smallest, alike; NaN counts as smaller than everything.
ValuesAndIndices min(const Tensor& x, int dim, bool keepdim = false);
/// The indices of max, without `dim`.
Tensor argmax(const Tensor& x, int dim);

namespace kernels {
// out has x's rank, with size 1 in the dimensions that are summed, and is contiguous; the sums are divided by
// `divisor`.
template <DeviceType>
void sum(const Tensor& x, double divisor, Tensor& out);
// values and indices have x's rank, with size 1 in dimension `dim`.
template <DeviceType>
void extreme(const Tensor& x, int dim, bool largest, Tensor& values, Tensor& indices);
}  // namespace kernels

}  // namespace tandem::core
