#include "tandem/core/ops/unary.h"

#include "tandem/core/ops/broadcast.h"
#include "tandem/core/ops/computable.h"
#include "tandem/core/ops/dispatch.h"

namespace tandem::core {
namespace {

Tensor apply(const char* name, UnaryOp op, const Tensor& x) {
  check_floating(name, x);
  Tensor y = Tensor::empty_like(x);
  if (y.numel() > 0) TANDEM_DISPATCH(name, x.device(), unary, op, x, y);
  return y;
}

Tensor apply(const char* name, ScalarOp op, const Tensor& x, double value) {
  check_floating(name, x);
  Tensor y = Tensor::empty_like(x);
  if (y.numel() > 0) TANDEM_DISPATCH(name, x.device(), scalar, op, x, value, y);
  return y;
}

void check_bounds(const char* op, double low, double high) {
  if (!(low <= high)) fail("{}: the lower bound {} is not below the upper bound {}", op, low, high);
}

// Where the gradient of what is shaped as `like` goes: into dy's own memory if that is allowed.
Tensor gradient_for(const char* op, const Tensor& dy, bool dy_is_ours, const Tensor& like) {
  check_floating(op, like);
  if (!dy.defined()) fail("{}: the gradient is undefined", op);
  if (dy.shape() != like.shape() || dy.dtype() != like.dtype())
    fail("{}: gradient {} {} does not fit {} {}", op, name(dy.dtype()), dy.shape().str(), name(like.dtype()),
         like.shape().str());
  if (dy_is_ours && dy.strides() == like.strides() && dy.is_dense()) return dy;
  return Tensor::empty_like(like);
}

}  // namespace

Tensor neg(const Tensor& x) { return apply("neg", UnaryOp::neg, x); }
Tensor abs(const Tensor& x) { return apply("abs", UnaryOp::abs, x); }
Tensor sign(const Tensor& x) { return apply("sign", UnaryOp::sign, x); }
Tensor exp(const Tensor& x) { return apply("exp", UnaryOp::exp, x); }
Tensor log(const Tensor& x) { return apply("log", UnaryOp::log, x); }
Tensor sqrt(const Tensor& x) { return apply("sqrt", UnaryOp::sqrt, x); }
Tensor reciprocal(const Tensor& x) { return apply("reciprocal", UnaryOp::reciprocal, x); }
Tensor square(const Tensor& x) { return apply("square", UnaryOp::square, x); }
Tensor relu(const Tensor& x) { return apply("relu", UnaryOp::relu, x); }
Tensor sigmoid(const Tensor& x) { return apply("sigmoid", UnaryOp::sigmoid, x); }
Tensor tanh(const Tensor& x) { return apply("tanh", UnaryOp::tanh, x); }

Tensor add_scalar(const Tensor& x, double value) { return apply("add_scalar", ScalarOp::add, x, value); }
Tensor mul_scalar(const Tensor& x, double value) { return apply("mul_scalar", ScalarOp::mul, x, value); }
Tensor pow_scalar(const Tensor& x, double exponent) { return apply("pow_scalar", ScalarOp::pow, x, exponent); }

Tensor clamp(const Tensor& x, double low, double high) {
  check_floating("clamp", x);
  check_bounds("clamp", low, high);
  Tensor y = Tensor::empty_like(x);
  if (y.numel() > 0) TANDEM_DISPATCH("clamp", x.device(), clamp, x, low, high, y);
  return y;
}

void scale(Tensor& x, double factor) {
  check_floating("scale", x);
  check_no_repeats("scale", x);
  if (x.numel() > 0) TANDEM_DISPATCH("scale", x.device(), scalar, ScalarOp::mul, x, factor, x);
}

Tensor relu_backward(Tensor dy, const Tensor& y) {
  Tensor dx = gradient_for("relu_backward", dy, dy.is_unique(), y);
  if (dx.numel() > 0) TANDEM_DISPATCH("relu_backward", y.device(), relu_backward, dy, y, dx);
  return dx;
}

Tensor sigmoid_backward(Tensor dy, const Tensor& y) {
  Tensor dx = gradient_for("sigmoid_backward", dy, dy.is_unique(), y);
  if (dx.numel() > 0) TANDEM_DISPATCH("sigmoid_backward", y.device(), sigmoid_backward, dy, y, dx);
  return dx;
}

Tensor tanh_backward(Tensor dy, const Tensor& y) {
  Tensor dx = gradient_for("tanh_backward", dy, dy.is_unique(), y);
  if (dx.numel() > 0) TANDEM_DISPATCH("tanh_backward", y.device(), tanh_backward, dy, y, dx);
  return dx;
}

Tensor clamp_backward(Tensor dy, const Tensor& x, double low, double high) {
  check_bounds("clamp_backward", low, high);
  Tensor dx = gradient_for("clamp_backward", dy, dy.is_unique(), x);
  if (dx.numel() > 0) TANDEM_DISPATCH("clamp_backward", x.device(), clamp_backward, dy, x, low, high, dx);
  return dx;
}

}  // namespace tandem::core
