#include "tandem/core/ops/matmul.h"

#include "tandem/core/ops/dispatch.h"

namespace tandem::core {
namespace {

Shape batch_of(const Tensor& t) { return Shape(std::span(t.shape().begin(), static_cast<std::size_t>(t.rank() - 2))); }

void check(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) fail("matmul: an operand is undefined");
  if (a.rank() < 2 || b.rank() < 2)
    fail("matmul: operands need two dimensions or more: {} x {}", a.shape().str(), b.shape().str());
  if (a.shape().back() != b.shape()[b.rank() - 2])
    fail("matmul: inner dimensions differ: {} x {} ({} and {})", a.shape().str(), b.shape().str(), a.shape().back(),
         b.shape()[b.rank() - 2]);
  if (a.dtype() != b.dtype()) fail("matmul: dtypes differ: {} x {}", name(a.dtype()), name(b.dtype()));
}

Shape result_shape(const Tensor& a, const Tensor& b) {
  Shape shape;
  if (a.rank() > 2 || b.rank() > 2) shape = broadcast_shape("matmul", batch_of(a), batch_of(b));
  shape.push_back(a.shape()[a.rank() - 2]);
  shape.push_back(b.shape().back());
  return shape;
}

Tensor expand_batch(const Tensor& t, const Shape& result) {
  Shape shape = result;
  for (int i = 1; i <= 2; ++i) shape[shape.rank() - i] = t.shape()[t.rank() - i];
  return shape == t.shape() ? t : t.expand(shape);
}

void run(const Tensor& a, const Tensor& b, Tensor& out, bool accumulate) {
  if (out.numel() == 0) return;
  const double flops = 2.0 * static_cast<double>(out.numel()) * static_cast<double>(a.shape().back());
  TANDEM_DISPATCH_FLOPS("matmul", out.device(), flops, matmul, expand_batch(a, out.shape()),
                        expand_batch(b, out.shape()), out, accumulate);
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b) {
  check(a, b);
  Tensor out = Tensor::empty(result_shape(a, b), a.options());
  run(a, b, out, false);
  return out;
}

void matmul_into(const Tensor& a, const Tensor& b, Tensor& out, bool accumulate) {
  check(a, b);
  if (out.shape() != result_shape(a, b))
    fail("matmul: {} x {} gives {}, the destination is {}", a.shape().str(), b.shape().str(), result_shape(a, b).str(),
         out.shape().str());
  if (out.dtype() != a.dtype() && !(a.dtype() == DType::bfloat16 && out.dtype() == DType::float32))
    fail("matmul: destination is {}, operands are {}", name(out.dtype()), name(a.dtype()));
  run(a, b, out, accumulate);
}

}  // namespace tandem::core
