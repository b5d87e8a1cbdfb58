#include "tandem/core/ops/reduce.h"

#include <algorithm>

#include "tandem/autograd/node.h"
#include "tandem/autograd/ops.h"
#include "tandem/core/ops/gather.h"
#include "tandem/core/ops/unary.h"

namespace tandem::autograd {
namespace {

// `shape` with the reduced dimensions kept as 1, so that a gradient can be expanded over them.
Shape kept_shape(const Shape& shape, std::initializer_list<int> dims) {
  Shape kept = dims.size() == 0 ? core::Dims::filled(shape.rank(), 1) : shape;
  for (const int dim : dims) kept[core::normalize_dim("reduce", dim, shape.rank())] = 1;
  return kept;
}

Variable extremum(const char* name, const Variable& x, core::ValuesAndIndices found, int dim, bool keepdim) {
  return record(name, found.values, {x},
                [indices = SavedTensor(found.indices), shape = x.shape(), dim, keepdim](Tensor dy, Gradients& dx) {
                  Tensor gradient = Tensor::zeros(shape, dy.options());
                  const int at = core::normalize_dim("max", dim, shape.rank());
                  core::scatter_add(gradient, at, keepdim ? indices.get() : indices.get().unsqueeze(at),
                                    keepdim ? dy : dy.unsqueeze(at));
                  dx.add(0, std::move(gradient));
                });
}

}  // namespace

Variable sum(const Variable& x, std::initializer_list<int> dims, bool keepdim) {
  return record("sum", core::sum(x.data(), dims, keepdim), {x},
                [shape = x.shape(), kept = kept_shape(x.shape(), dims)](Tensor dy, Gradients& dx) {
                  dx.add(0, dy.reshape(kept).expand(shape));
                });
}

Variable mean(const Variable& x, std::initializer_list<int> dims, bool keepdim) {
  const Shape kept = kept_shape(x.shape(), dims);
  const double count =
      static_cast<double>(x.data().numel()) / static_cast<double>(std::max<std::int64_t>(1, core::numel(kept)));
  return record("mean", core::mean(x.data(), dims, keepdim), {x},
                [shape = x.shape(), kept, count](Tensor dy, Gradients& dx) {
                  dx.add(0, core::mul_scalar(dy, 1 / count).reshape(kept).expand(shape));
                });
}

Variable max(const Variable& x, int dim, bool keepdim) {
  return extremum("max", x, core::max(x.data(), dim, keepdim), dim, keepdim);
}

Variable min(const Variable& x, int dim, bool keepdim) {
  return extremum("min", x, core::min(x.data(), dim, keepdim), dim, keepdim);
}

}  // namespace tandem::autograd
