#include "tandem/core/ops/batch_norm.h"

#include "tandem/core/ops/dispatch.h"

namespace tandem::core {
namespace {

void check_vector(const char* op, const char* what, const Tensor& vector, const Tensor& x) {
  if (!vector.defined()) return;
  if (vector.shape() != Shape{x.shape()[1]} || !is_floating(vector.dtype()))
    fail("{}: {} {} {} does not fit the channels of x {}", op, what, name(vector.dtype()), vector.shape().str(),
         x.shape().str());
}

void check_required(const char* op, const char* what, const Tensor& vector, const Tensor& x) {
  if (!vector.defined()) fail("{}: {} is undefined", op, what);
  check_vector(op, what, vector, x);
}

void check_input(const char* op, const Tensor& x) {
  if (x.rank() != 2 && x.rank() != 4) fail("{}: x needs to be [N, C] or [N, C, H, W], got {}", op, x.shape().str());
  if (!is_floating(x.dtype())) fail("{}: x needs a floating dtype, got {}", op, name(x.dtype()));
}

void check_gradient(const char* op, const Tensor& dy, const Tensor& x) {
  check_input(op, x);
  if (dy.shape() != x.shape() || dy.dtype() != x.dtype())
    fail("{}: gradient {} {} does not match x {} {}", op, name(dy.dtype()), dy.shape().str(), name(x.dtype()),
         x.shape().str());
}

DType statistics_dtype(const Tensor& x) { return x.dtype() == DType::float64 ? DType::float64 : DType::float32; }

// A vector as the kernels take it.
Tensor prepared(const Tensor& vector, const Tensor& x) {
  return vector.defined() ? vector.to(statistics_dtype(x)).contiguous() : vector;
}

Tensor canonical(const Tensor& x) { return x.is_contiguous() || x.is_channels_last() ? x : x.contiguous(); }

// Of a canonical x. One channel: all values are one run.
BatchNormLayout layout_of(const Tensor& x) {
  const std::int64_t channels = x.shape()[1], values = channels > 0 ? x.numel() / channels : 0;
  if (channels == 1) return {.outer = 1, .channels = 1, .inner = values};
  if (x.rank() == 2 || x.is_channels_last() || values == 0) return {.outer = values, .channels = channels, .inner = 1};
  return {.outer = x.shape()[0], .channels = channels, .inner = values / x.shape()[0]};
}

Tensor inv_std_of(const char* op, const Tensor& variance, double eps) {
  Tensor inv_std = Tensor::empty_like(variance);
  TANDEM_DISPATCH(op, variance.device(), batch_norm_inv_std, variance, eps, inv_std);
  return inv_std;
}

void store_gradient(const char* op, const Tensor& sum, Tensor& gradient, bool accumulate) {
  if (gradient.defined())
    TANDEM_DISPATCH(op, gradient.device(), batch_norm_parameter_gradient, sum, gradient, accumulate);
}

Tensor backward(const char* op, const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& mean,
                const Tensor& inv_std, bool training, Tensor& dweight, Tensor& dbias, bool accumulate) {
  check_vector(op, "weight", weight, x);
  check_vector(op, "dweight", dweight, x);
  check_vector(op, "dbias", dbias, x);
  const Tensor input = canonical(x), w = prepared(weight, x);
  const Tensor gradient = dy.strides() == input.strides() ? dy : Tensor::empty_like(input).copy_from(dy);
  const BatchNormLayout layout = layout_of(input);
  Tensor dx = Tensor::empty_like(input), sums;
  if (training || dweight.defined() || dbias.defined()) {
    sums = Tensor::empty({2, layout.channels}, {.dtype = DType::float64, .device = x.device()});
    TANDEM_DISPATCH(op, x.device(), batch_norm_sums, gradient, input, layout, mean, inv_std, sums);
    store_gradient(op, sums.select(0, 0), dbias, accumulate);
    store_gradient(op, sums.select(0, 1), dweight, accumulate);
  }
  TANDEM_DISPATCH(op, x.device(), batch_norm_dx, gradient, input, layout, mean, inv_std, w, training ? sums : Tensor(),
                  dx);
  return dx;
}

}  // namespace

BatchNormForward batch_norm_training(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  constexpr const char* kOp = "batch_norm";
  check_input(kOp, x);
  check_vector(kOp, "weight", weight, x);
  check_vector(kOp, "bias", bias, x);
  const std::int64_t channels = x.shape()[1];
  if (channels > 0 && x.numel() / channels < 2)
    fail("{}: training needs more than one value per channel, got x {}", kOp, x.shape().str());
  const Tensor input = canonical(x);
  const BatchNormLayout layout = layout_of(input);
  const TensorOptions vector{.dtype = statistics_dtype(x), .device = x.device()};
  BatchNormForward result{.output = Tensor::empty_like(input),
                          .mean = Tensor::empty({channels}, vector),
                          .inv_std = {},
                          .variance = Tensor::empty({channels}, vector)};
  TANDEM_DISPATCH(kOp, x.device(), batch_norm_statistics, input, layout, result.mean, result.variance);
  result.inv_std = inv_std_of(kOp, result.variance, eps);
  TANDEM_DISPATCH(kOp, x.device(), batch_norm_apply, input, layout, result.mean, result.inv_std, prepared(weight, x),
                  prepared(bias, x), result.output);
  return result;
}

Tensor batch_norm_inference(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& running_mean,
                            const Tensor& running_variance, double eps) {
  constexpr const char* kOp = "batch_norm_inference";
  check_input(kOp, x);
  check_vector(kOp, "weight", weight, x);
  check_vector(kOp, "bias", bias, x);
  check_required(kOp, "running_mean", running_mean, x);
  check_required(kOp, "running_variance", running_variance, x);
  const Tensor input = canonical(x);
  Tensor output = Tensor::empty_like(input);
  const Tensor inv_std = inv_std_of(kOp, prepared(running_variance, x), eps);
  TANDEM_DISPATCH(kOp, x.device(), batch_norm_apply, input, layout_of(input), prepared(running_mean, x), inv_std,
                  prepared(weight, x), prepared(bias, x), output);
  return output;
}

Tensor batch_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& mean,
                           const Tensor& inv_std, Tensor& dweight, Tensor& dbias, bool accumulate) {
  constexpr const char* kOp = "batch_norm_backward";
  check_gradient(kOp, dy, x);
  check_required(kOp, "mean", mean, x);
  check_required(kOp, "inv_std", inv_std, x);
  return backward(kOp, dy, x, weight, prepared(mean, x), prepared(inv_std, x), true, dweight, dbias, accumulate);
}

Tensor batch_norm_inference_backward(const Tensor& dy, const Tensor& x, const Tensor& weight,
                                     const Tensor& running_mean, const Tensor& running_variance, double eps,
                                     Tensor& dweight, Tensor& dbias, bool accumulate) {
  constexpr const char* kOp = "batch_norm_inference_backward";
  check_gradient(kOp, dy, x);
  check_required(kOp, "running_mean", running_mean, x);
  check_required(kOp, "running_variance", running_variance, x);
  const Tensor inv_std = inv_std_of(kOp, prepared(running_variance, x), eps);
  return backward(kOp, dy, x, weight, prepared(running_mean, x), inv_std, false, dweight, dbias, accumulate);
}

}  // namespace tandem::core
