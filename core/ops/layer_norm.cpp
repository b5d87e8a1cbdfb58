#include "tandem/core/ops/layer_norm.h"

#include "tandem/core/ops/dispatch.h"

namespace tandem::core {
namespace {

void check_input(const char* op, const Tensor& x) {
  if (x.rank() < 1) fail("{}: x needs to be [..., D], got {}", op, x.shape().str());
  if (!is_floating(x.dtype())) fail("{}: x needs a floating dtype, got {}", op, name(x.dtype()));
}

DType statistics_dtype(const Tensor& x) { return x.dtype() == DType::float64 ? DType::float64 : DType::float32; }

Shape rows_of(const Tensor& x) { return Shape(std::span(x.shape().begin(), static_cast<std::size_t>(x.rank() - 1))); }

void check_statistics(const char* op, const char* what, const Tensor& statistics, const Tensor& x) {
  if (!statistics.defined() || statistics.shape() != rows_of(x) || statistics.dtype() != statistics_dtype(x))
    fail("{}: {} {} {} is not what forward gave for x {}", op, what, name(statistics.dtype()), statistics.shape().str(),
         x.shape().str());
}

}  // namespace

void check_row_vector(const char* op, const char* what, const Tensor& vector, const Tensor& x) {
  if (!vector.defined()) return;
  if (vector.shape() != Shape{x.shape().back()} || !is_floating(vector.dtype()))
    fail("{}: {} {} {} does not fit the rows of x {}", op, what, name(vector.dtype()), vector.shape().str(),
         x.shape().str());
}

Tensor row_vector(const Tensor& vector, double otherwise, const Tensor& x) {
  const DType dtype = statistics_dtype(x);
  return vector.defined() ? vector.to(dtype).contiguous()
                          : Tensor::full({x.shape().back()}, otherwise, {.dtype = dtype, .device = x.device()});
}

Tensor row_statistics(const Tensor& x) {
  return Tensor::zeros(rows_of(x), {.dtype = statistics_dtype(x), .device = x.device()});
}

LayerNormForward layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  constexpr const char* kOp = "layer_norm";
  check_input(kOp, x);
  check_row_vector(kOp, "weight", weight, x);
  check_row_vector(kOp, "bias", bias, x);
  LayerNormForward result{
      .output = Tensor::empty(x.shape(), x.options()), .mean = row_statistics(x), .inv_std = row_statistics(x)};
  if (x.numel() > 0)
    TANDEM_DISPATCH(kOp, x.device(), layer_norm, x.contiguous(), row_vector(weight, 1, x), row_vector(bias, 0, x), eps,
                    result.output, result.mean, result.inv_std);
  return result;
}

Tensor layer_norm_backward(Tensor dy, const Tensor& x, const Tensor& weight, const Tensor& mean, const Tensor& inv_std,
                           Tensor& dweight, Tensor& dbias, bool accumulate) {
  constexpr const char* kOp = "layer_norm_backward";
  check_input(kOp, x);
  if (dy.shape() != x.shape() || dy.dtype() != x.dtype())
    fail("{}: gradient {} {} does not match x {} {}", kOp, name(dy.dtype()), dy.shape().str(), name(x.dtype()),
         x.shape().str());
  check_row_vector(kOp, "weight", weight, x);
  check_row_vector(kOp, "dweight", dweight, x);
  check_row_vector(kOp, "dbias", dbias, x);
  check_statistics(kOp, "mean", mean, x);
  check_statistics(kOp, "inv_std", inv_std, x);
  Tensor dx = dy.is_unique() && dy.is_contiguous() ? dy : Tensor::empty(x.shape(), x.options());
  if (x.numel() > 0) {
    TANDEM_DISPATCH(kOp, x.device(), layer_norm_backward, dy.contiguous(), x.contiguous(), row_vector(weight, 1, x),
                    mean, inv_std, dx, dweight, dbias, accumulate);
  } else if (!accumulate) {
    for (Tensor* gradient : {&dweight, &dbias})
      if (gradient->defined()) gradient->fill(0);
  }
  return dx;
}

}  // namespace tandem::core
