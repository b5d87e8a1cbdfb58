#include "tandem/core/ops/where.h"

#include "tandem/core/ops/broadcast.h"
#include "tandem/core/ops/dispatch.h"

namespace tandem::core {

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  if (!condition.defined() || !a.defined() || !b.defined()) fail("where: an operand is undefined");
  if (condition.dtype() != DType::boolean)
    fail("where: the condition must be bool, got {} {}", name(condition.dtype()), condition.shape().str());
  if (a.dtype() != b.dtype())
    fail("where: dtypes differ: {} {} and {} {}", name(a.dtype()), a.shape().str(), name(b.dtype()), b.shape().str());
  const Shape shape = broadcast_shape("where", condition.shape(), broadcast_shape("where", a.shape(), b.shape()));
  Tensor out = empty_for(shape, a.dtype(), {&a, &b, &condition});
  if (out.numel() > 0) TANDEM_DISPATCH("where", a.device(), where, condition, a, b, out);
  return out;
}

}  // namespace tandem::core
