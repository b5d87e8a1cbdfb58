#include "tandem/core/ops/reduce.h"

#include "tandem/core/ops/computable.h"
#include "tandem/core/ops/dispatch.h"

namespace tandem::core {
namespace {

// A set of dimensions, as bits.
unsigned dim_set(const char* op, const Tensor& x, std::span<const int> dims) {
  if (dims.empty()) return (1u << x.rank()) - 1;
  unsigned set = 0;
  for (const int dim : dims) {
    const unsigned bit = 1u << normalize_dim(op, dim, x.rank());
    if (set & bit) fail("{}: dimension {} of {} is named twice", op, dim, x.shape().str());
    set |= bit;
  }
  return set;
}

// x's shape with 1 in the dimensions of the set, or without them.
Shape reduced_shape(const Shape& shape, unsigned set, bool keepdim) {
  Shape result;
  for (int i = 0; i < shape.rank(); ++i) {
    if (!(set >> i & 1u)) result.push_back(shape[i]);
    if ((set >> i & 1u) && keepdim) result.push_back(1);
  }
  return result;
}

// `tensor` is contiguous: another shape of as many elements is a view.
Tensor with_shape(const Tensor& tensor, const Shape& shape) {
  return Tensor(tensor.storage(), shape, contiguous_strides(shape), 0, tensor.dtype());
}

// x's dtype for floating types; integers are counted in int64.
DType sum_dtype(const char* op, const Tensor& x) {
  if (!x.defined()) fail("{}: the tensor is undefined", op);
  if (!is_floating(x.dtype())) return DType::int64;
  check_floating(op, x);
  return x.dtype();
}

Tensor sum_over(const char* op, const Tensor& x, unsigned set, bool keepdim, double divisor) {
  const DType dtype = sum_dtype(op, x);
  Tensor out = Tensor::empty(reduced_shape(x.shape(), set, true), {.dtype = dtype, .device = x.device()});
  if (out.numel() > 0) TANDEM_DISPATCH(op, x.device(), sum, x, divisor, out);
  return keepdim ? out : with_shape(out, reduced_shape(x.shape(), set, false));
}

ValuesAndIndices extreme(const char* op, const Tensor& x, int dim, bool keepdim, bool largest) {
  if (!x.defined()) fail("{}: the tensor is undefined", op);
  dim = normalize_dim(op, dim, x.rank());
  const unsigned set = 1u << dim;
  const Shape kept = reduced_shape(x.shape(), set, true);
  Tensor values = Tensor::empty(kept, {.dtype = x.dtype(), .device = x.device()});
  Tensor indices = Tensor::empty(kept, {.dtype = DType::int64, .device = x.device()});
  if (values.numel() > 0) {
    if (x.shape()[dim] == 0) fail("{}: dimension {} of {} is empty", op, dim, x.shape().str());
    TANDEM_DISPATCH(op, x.device(), extreme, x, dim, largest, values, indices);
  }
  if (keepdim) return {values, indices};
  const Shape shape = reduced_shape(x.shape(), set, false);
  return {with_shape(values, shape), with_shape(indices, shape)};
}

}  // namespace

Tensor sum(const Tensor& x, std::span<const int> dims, bool keepdim) {
  return sum_over("sum", x, dim_set("sum", x, dims), keepdim, 1);
}

Tensor mean(const Tensor& x, std::span<const int> dims, bool keepdim) {
  check_floating("mean", x);
  const unsigned set = dim_set("mean", x, dims);
  std::int64_t count = 1;
  for (int i = 0; i < x.rank(); ++i)
    if (set >> i & 1u) count *= x.shape()[i];
  return sum_over("mean", x, set, keepdim, static_cast<double>(count));
}

Tensor sum_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  const int added = x.rank() - shape.rank();
  unsigned set = 0;
  bool fits = added >= 0;
  for (int i = 0; i < x.rank() && fits; ++i) {
    if (i < added || (shape[i - added] == 1 && x.shape()[i] != 1)) {
      set |= 1u << i;
    } else {
      fits = shape[i - added] == x.shape()[i];
    }
  }
  if (!fits) fail("sum_to: {} does not broadcast to {}", shape.str(), x.shape().str());
  return with_shape(sum_over("sum_to", x, set, true, 1), shape);
}

ValuesAndIndices max(const Tensor& x, int dim, bool keepdim) { return extreme("max", x, dim, keepdim, true); }
ValuesAndIndices min(const Tensor& x, int dim, bool keepdim) { return extreme("min", x, dim, keepdim, false); }
Tensor argmax(const Tensor& x, int dim) { return extreme("argmax", x, dim, false, true).indices; }

}  // namespace tandem::core
