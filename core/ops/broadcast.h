// What operators on broadcast operands share: the layout of the result, and strides that repeat an operand.
#pragma once

#include <initializer_list>

#include "tandem/core/tensor.h"

namespace tandem::core {

/// A tensor of `shape` for a result: laid out as the first operand that has this shape and is dense, else contiguous.
inline Tensor empty_for(const Shape& shape, DType dtype, std::initializer_list<const Tensor*> operands) {
  Tensor result = Tensor::empty(shape, {.dtype = dtype, .device = (*operands.begin())->device()});
  for (const Tensor* operand : operands)
    if (operand->shape() == shape && operand->is_dense())
      return Tensor(result.storage(), shape, operand->strides(), 0, dtype);
  return result;
}

/// Strides with which `tensor` is read as if it had `shape`, to which it broadcasts: 0 where it is repeated.
inline Strides broadcast_strides(const Tensor& tensor, const Shape& shape) {
  const int added = shape.rank() - tensor.rank();
  Strides strides = Dims::filled(shape.rank(), 0);
  for (int i = 0; i < tensor.rank(); ++i)
    if (tensor.shape()[i] == shape[i + added]) strides[i + added] = tensor.strides()[i];
  return strides;
}

/// Throws where several elements of `tensor` share memory (expand): writing in place would be ambiguous.
inline void check_no_repeats(const char* op, const Tensor& tensor) {
  for (int i = 0; i < tensor.rank(); ++i)
    if (tensor.shape()[i] > 1 && tensor.strides()[i] == 0)
      fail("{}: cannot write in place to {}, whose dimension {} repeats the same memory", op, tensor.shape().str(), i);
}

}  // namespace tandem::core
