// What operators on broadcast operands share: the layout of the result, strides that repeat an operand, and what
// writing to one operand does to the others.
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

/// Throws if several elements of `tensor` share memory (expand): writing in place would be ambiguous. A tensor without
/// elements has none that could.
inline void check_no_repeats(const char* op, const Tensor& tensor) {
  if (tensor.numel() == 0) return;
  for (int i = 0; i < tensor.rank(); ++i)
    if (tensor.shape()[i] > 1 && tensor.strides()[i] == 0)
      fail("{}: cannot write in place to {}, whose dimension {} repeats the same memory", op, tensor.shape().str(), i);
}

/// Whether writing elements of `written` may change what is still to be read from `read`; neither is empty. False for
/// one and the same view, whose elements are read before they are written.
inline bool may_disturb(const Tensor& written, const Tensor& read) {
  if (written.storage() != read.storage() || written.is_same_view(read)) return false;
  const auto last_byte = [](const Tensor& tensor, std::int64_t* first) {
    const auto size = static_cast<std::int64_t>(item_size(tensor.dtype()));
    std::int64_t last = tensor.offset();
    for (int i = 0; i < tensor.rank(); ++i) last += (tensor.shape()[i] - 1) * tensor.strides()[i];
    *first = tensor.offset() * size;
    return (last + 1) * size - 1;
  };
  std::int64_t first_written, first_read;
  const std::int64_t last_written = last_byte(written, &first_written), last_read = last_byte(read, &first_read);
  return first_written <= last_read && first_read <= last_written;
}

}  // namespace tandem::core
