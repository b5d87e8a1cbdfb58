#include "tandem/core/ops/embedding.h"

#include "tandem/core/ops/dispatch.h"
#include "tandem/core/ops/fill.h"

namespace tandem::core {
namespace {

void check(const char* op, const Tensor& weight, const Tensor& indices) {
  if (weight.rank() != 2) fail("{}: the table needs to be [V, D], got {}", op, weight.shape().str());
  if (indices.dtype() != DType::int64) fail("{}: indices need to be int64, got {}", op, name(indices.dtype()));
}

Shape output_shape(const Tensor& weight, const Tensor& indices) {
  Shape shape = indices.shape();
  shape.push_back(weight.shape()[1]);
  return shape;
}

// A row of the table for each index, not the table: read and written, and in backward read before as well.
Cost cost_of_rows(const Tensor& rows, const Tensor& indices, int passes) {
  return {.bytes = passes * moved_bytes(rows) + moved_bytes(indices)};
}

}  // namespace

Tensor embedding(const Tensor& weight, const Tensor& indices) {
  check("embedding", weight, indices);
  Tensor output = Tensor::empty(output_shape(weight, indices), weight.options());
  TANDEM_DISPATCH_COST("embedding", weight.device(), cost_of_rows(output, indices, 2), embedding, weight,
                       indices.contiguous(), output);
  return output;
}

void embedding_backward(const Tensor& dy, const Tensor& indices, Tensor& dweight, bool accumulate,
                        std::int64_t padding_idx) {
  constexpr const char* kOp = "embedding_backward";
  check(kOp, dweight, indices);
  const Shape expected = output_shape(dweight, indices);
  if (dy.shape() != expected || dy.dtype() != dweight.dtype())
    fail("{}: gradient {} {} of an output {} {}", kOp, name(dy.dtype()), dy.shape().str(), name(dweight.dtype()),
         expected.str());
  if (!accumulate) fill(dweight, 0);
  TANDEM_DISPATCH_COST(kOp, dy.device(), cost_of_rows(dy, indices, 3), embedding_backward, dy.contiguous(),
                       indices.contiguous(), dweight, padding_idx);
}

}  // namespace tandem::core
