// Concatenation along an existing dimension.
#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include "tandem/core/tensor.h"

namespace tandem::core {

/// Any dtype, the same for all; shapes equal but for `dim` (negative from the back). The result is channels-last where
/// all tensors are (and not all are contiguous as well), else contiguous. It is made of copies into slices, so each
/// device that copies can do it. Throws where there is no tensor, or where ranks, dtypes or the other sizes differ.
Tensor cat(std::span<const Tensor> tensors, int dim);
inline Tensor cat(const std::vector<Tensor>& tensors, int dim) { return cat(std::span<const Tensor>(tensors), dim); }
/// cat({a, b}, 1)
inline Tensor cat(std::initializer_list<Tensor> tensors, int dim) {
  return cat(std::span<const Tensor>(tensors.begin(), tensors.size()), dim);
}

}  // namespace tandem::core
