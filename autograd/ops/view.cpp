// Operators that move no data where strides permit: reshape and its family. Their gradients undo the movement.
#include "tandem/autograd/node.h"
#include "tandem/autograd/ops.h"
#include "tandem/core/ops/reduce.h"

namespace tandem::autograd {
namespace {

// y is x's elements in another order of dimensions; `undo(dy)` is the view of dy that has x's. dy itself is let go
// first, so that whoever gets the view holds it alone.
template <class Undo>
Variable viewed(const char* name, const Variable& x, Tensor y, Undo undo) {
  return record(name, std::move(y), {x}, [undo](Tensor dy, Gradients& dx) {
    Tensor gradient = undo(dy);
    dy = {};
    dx.add(0, std::move(gradient));
  });
}

Variable reshaped(const char* name, const Variable& x, Tensor y) {
  return viewed(name, x, std::move(y), [shape = x.shape()](const Tensor& dy) { return dy.reshape(shape); });
}

// The gradient of a part of x is zero elsewhere. `take(whole)` is the view that forward took.
template <class Take>
Variable part(const char* name, const Variable& x, Take take) {
  return record(name, take(x.data()), {x}, [shape = x.shape(), take](Tensor dy, Gradients& dx) {
    Tensor whole = Tensor::zeros(shape, dy.options());
    Tensor place = take(whole);
    place.copy_from(dy);
    place = {};
    dx.add(0, std::move(whole));
  });
}

}  // namespace

Variable reshape(const Variable& x, const Shape& shape) { return reshaped("reshape", x, x.data().reshape(shape)); }

Variable flatten(const Variable& x, int first) {
  first = core::normalize_dim("flatten", first, x.data().rank());
  Shape shape;
  for (int i = 0; i < first; ++i) shape.push_back(x.shape()[i]);
  std::int64_t rest = 1;
  for (int i = first; i < x.data().rank(); ++i) rest *= x.shape()[i];
  shape.push_back(rest);
  return reshaped("flatten", x, x.data().reshape(shape));
}

Variable squeeze(const Variable& x, int dim) { return reshaped("squeeze", x, x.data().squeeze(dim)); }
Variable unsqueeze(const Variable& x, int dim) { return reshaped("unsqueeze", x, x.data().unsqueeze(dim)); }

Variable transpose(const Variable& x, int dim0, int dim1) {
  return viewed("transpose", x, x.data().transpose(dim0, dim1),
                [dim0, dim1](const Tensor& dy) { return dy.transpose(dim0, dim1); });
}

Variable permute(const Variable& x, std::initializer_list<int> order) {
  Tensor y = x.data().permute(order);
  const auto rank = static_cast<std::size_t>(y.rank());
  std::array<int, core::kMaxRank> inverse{};
  int position = 0;
  for (const int from : order)
    inverse[static_cast<std::size_t>(core::normalize_dim("permute", from, y.rank()))] = position++;
  return viewed("permute", x, std::move(y),
                [inverse, rank](const Tensor& dy) { return dy.permute(std::span(inverse.data(), rank)); });
}

Variable slice(const Variable& x, int dim, std::int64_t start, std::int64_t end, std::int64_t step) {
  return part("slice", x, [=](const Tensor& t) { return t.slice(dim, start, end, step); });
}

Variable select(const Variable& x, int dim, std::int64_t index) {
  return part("select", x, [=](const Tensor& t) { return t.select(dim, index); });
}

Variable expand(const Variable& x, const Shape& shape) {
  return record("expand", x.data().expand(shape), {x}, [](Tensor dy, Gradients& dx) { dx.add(0, std::move(dy)); });
}

Variable contiguous(const Variable& x, core::MemoryFormat format) {
  return record("contiguous", x.data().contiguous(format), {x},
                [](Tensor dy, Gradients& dx) { dx.add(0, std::move(dy)); });
}

}  // namespace tandem::autograd
