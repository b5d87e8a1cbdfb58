#include "tandem/core/ops/binary.h"

#include "tandem/core/ops/broadcast.h"
#include "tandem/core/ops/computable.h"
#include "tandem/core/ops/dispatch.h"

namespace tandem::core {
namespace {

void check_operands(const char* op, const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) fail("{}: the {} operand is undefined", op, a.defined() ? "second" : "first");
  if (a.dtype() != b.dtype())
    fail("{}: dtypes differ: {} {} and {} {}", op, name(a.dtype()), a.shape().str(), name(b.dtype()), b.shape().str());
}

void check_arithmetic(const char* op, const Tensor& a) {
  if (!is_computable(a.dtype(), a.device()))
    fail("{}: needs float32, float64, bfloat16, int64 or int32, got {}", op, name(a.dtype()));
}

Tensor result_for(const char* op, const Tensor& a, const Tensor& b, DType dtype) {
  return empty_for(a.shape() == b.shape() ? a.shape() : broadcast_shape(op, a.shape(), b.shape()), dtype, {&a, &b});
}

Tensor apply(const char* name, BinaryOp op, const Tensor& a, const Tensor& b) {
  check_operands(name, a, b);
  check_arithmetic(name, a);
  Tensor out = result_for(name, a, b, a.dtype());
  if (out.numel() > 0) TANDEM_DISPATCH(name, a.device(), binary, op, a, b, out);
  return out;
}

Tensor apply(const char* name, CompareOp op, const Tensor& a, const Tensor& b) {
  check_operands(name, a, b);
  Tensor out = result_for(name, a, b, DType::boolean);
  if (out.numel() > 0) TANDEM_DISPATCH(name, a.device(), compare, op, a, b, out);
  return out;
}

}  // namespace

Tensor add(const Tensor& a, const Tensor& b) { return apply("add", BinaryOp::add, a, b); }
Tensor sub(const Tensor& a, const Tensor& b) { return apply("sub", BinaryOp::sub, a, b); }
Tensor mul(const Tensor& a, const Tensor& b) { return apply("mul", BinaryOp::mul, a, b); }
Tensor div(const Tensor& a, const Tensor& b) { return apply("div", BinaryOp::div, a, b); }
Tensor maximum(const Tensor& a, const Tensor& b) { return apply("maximum", BinaryOp::maximum, a, b); }
Tensor minimum(const Tensor& a, const Tensor& b) { return apply("minimum", BinaryOp::minimum, a, b); }

Tensor equal(const Tensor& a, const Tensor& b) { return apply("equal", CompareOp::equal, a, b); }
Tensor not_equal(const Tensor& a, const Tensor& b) { return apply("not_equal", CompareOp::not_equal, a, b); }
Tensor less(const Tensor& a, const Tensor& b) { return apply("less", CompareOp::less, a, b); }
Tensor less_equal(const Tensor& a, const Tensor& b) { return apply("less_equal", CompareOp::less_equal, a, b); }
Tensor greater(const Tensor& a, const Tensor& b) { return apply("greater", CompareOp::greater, a, b); }
Tensor greater_equal(const Tensor& a, const Tensor& b) {
  return apply("greater_equal", CompareOp::greater_equal, a, b);
}

void accumulate(Tensor& a, const Tensor& b) {
  check_operands("accumulate", a, b);
  check_arithmetic("accumulate", a);
  check_no_repeats("accumulate", a);
  if (a.shape() != b.shape() && broadcast_shape("accumulate", a.shape(), b.shape()) != a.shape())
    fail("accumulate: {} does not broadcast to {}", b.shape().str(), a.shape().str());
  if (a.numel() == 0) return;
  if (may_disturb(a, b)) {
    TANDEM_DISPATCH("accumulate", a.device(), accumulate, a, b.clone());
  } else {
    TANDEM_DISPATCH("accumulate", a.device(), accumulate, a, b);
  }
}

}  // namespace tandem::core
