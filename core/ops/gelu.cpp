#include "tandem/core/ops/gelu.h"

#include "tandem/core/ops/computable.h"
#include "tandem/core/ops/dispatch.h"
#include "tandem/core/ops/mixed_precision.h"

namespace tandem::core {
namespace {

void check_gradient(const char* op, const Tensor& dy, const Tensor& x) {
  check_floating(op, x);
  if (!dy.defined() || dy.shape() != x.shape() || dy.dtype() != x.dtype())
    fail("{}: gradient {} {} does not match x {} {}", op, name(dy.dtype()), dy.shape().str(), name(x.dtype()),
         x.shape().str());
}

void check_bias(const char* op, const char* what, const Tensor& bias, const Tensor& x) {
  if (x.rank() < 1 || !bias.defined() || bias.shape() != Shape{x.shape().back()})
    fail("{}: {} {} does not fit x {}", op, what, bias.shape().str(), x.shape().str());
}

void check_bias_and_dtype(const char* op, const Tensor& bias, const Tensor& x) {
  check_bias(op, "bias", bias, x);
  check_parameter_dtype(op, "bias", bias, x);
}

Tensor as_kernels_take(const Tensor& bias) {
  return bias.to(bias.dtype() == DType::float64 ? DType::float64 : DType::float32).contiguous();
}

}  // namespace

Tensor gelu(const Tensor& x, GeluApproximation approximation) {
  check_floating("gelu", x);
  Tensor y = Tensor::empty_like(x);
  if (x.numel() > 0) TANDEM_DISPATCH("gelu", x.device(), gelu, x, approximation, y);
  return y;
}

Tensor gelu_backward(Tensor dy, const Tensor& x, GeluApproximation approximation) {
  check_gradient("gelu_backward", dy, x);
  const bool reuses = dy.is_unique() && dy.strides() == x.strides() && dy.is_dense();
  Tensor dx = reuses ? dy : Tensor::empty_like(x);
  if (x.numel() > 0) TANDEM_DISPATCH("gelu_backward", x.device(), gelu_backward, dy, x, approximation, dx);
  return dx;
}

Tensor bias_gelu(const Tensor& x, const Tensor& bias, GeluApproximation approximation) {
  constexpr const char* kOp = "bias_gelu";
  check_floating(kOp, x);
  check_bias_and_dtype(kOp, bias, x);
  Tensor y = Tensor::empty(x.shape(), x.options());
  if (x.numel() > 0)
    TANDEM_DISPATCH(kOp, x.device(), bias_gelu, x.contiguous(), as_kernels_take(bias), approximation, y);
  return y;
}

Tensor bias_gelu_backward(Tensor dy, const Tensor& x, const Tensor& bias, GeluApproximation approximation,
                          Tensor& dbias, bool accumulate) {
  constexpr const char* kOp = "bias_gelu_backward";
  check_gradient(kOp, dy, x);
  check_bias_and_dtype(kOp, bias, x);
  if (dbias.defined()) check_bias(kOp, "dbias", dbias, x);
  Tensor dx = dy.is_unique() && dy.is_contiguous() ? dy : Tensor::empty(x.shape(), x.options());
  if (x.numel() > 0) {
    TANDEM_DISPATCH(kOp, x.device(), bias_gelu_backward, dy.contiguous(), x.contiguous(), as_kernels_take(bias),
                    approximation, dx, dbias, accumulate);
  } else if (dbias.defined() && !accumulate) {
    dbias.fill(0);
  }
  return dx;
}

}  // namespace tandem::core
