#include "tandem/core/ops/batch_norm.h"

#include "tandem/core/ops/dispatch.h"

namespace tandem::core {

static double moved_bytes(const BatchNormOperands& given) { return moved_bytes(given.x); }  // vectors are small

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

void check_like(const char* op, const char* what, const Tensor& tensor, const Tensor& x) {
  if (tensor.shape() != x.shape() || tensor.dtype() != x.dtype())
    fail("{}: {} {} {} does not match x {} {}", op, what, name(tensor.dtype()), tensor.shape().str(), name(x.dtype()),
         x.shape().str());
}

DType statistics_dtype(const Tensor& x) { return x.dtype() == DType::float64 ? DType::float64 : DType::float32; }

// A vector as the kernels take it.
Tensor prepared(const Tensor& vector, const Tensor& x) {
  return vector.defined() ? vector.to(statistics_dtype(x)).contiguous() : vector;
}

Tensor canonical(const Tensor& x) { return x.is_contiguous() || x.is_channels_last() ? x : x.contiguous(); }

// `tensor` in the memory order of the canonical `x`.
Tensor laid_out_as(const Tensor& tensor, const Tensor& x) {
  return !tensor.defined() || tensor.has_layout_of(x) ? tensor : Tensor::empty_like(x).copy_from(tensor);
}

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

void store_gradient(const char* op, const Tensor& sums, int row, Tensor& gradient, bool accumulate) {
  if (gradient.defined())
    TANDEM_DISPATCH(op, gradient.device(), batch_norm_parameter_gradient, sums.select(0, row), gradient, accumulate);
}

BatchNormOperands operands_of(const Tensor& x, const Tensor& weight, const Tensor& bias, bool relu) {
  const Tensor input = canonical(x);
  return {.x = input,
          .layout = layout_of(input),
          .mean = {},
          .inv_std = {},
          .weight = prepared(weight, x),
          .bias = prepared(bias, x),
          .relu = relu};
}

void check_forward(const char* op, const Tensor& x, const Tensor& weight, const Tensor& bias,
                   const BatchNormFusion& fusion) {
  check_input(op, x);
  check_vector(op, "weight", weight, x);
  check_vector(op, "bias", bias, x);
  if (fusion.residual.defined()) check_like(op, "residual", fusion.residual, x);
}

Tensor apply(const char* op, const BatchNormOperands& given, const Tensor& residual) {
  Tensor output = Tensor::empty_like(given.x);
  TANDEM_DISPATCH(op, output.device(), batch_norm_apply, given, laid_out_as(residual, given.x), output);
  return output;
}

// Of the two statistics only inv_std differs between training and inference.
Tensor backward(const char* op, Tensor dy, BatchNormOperands given, bool training, Tensor& dweight, Tensor& dbias,
                bool accumulate, const BatchNormFusionBackward& fusion) {
  const Tensor& x = given.x;
  check_vector(op, "dweight", dweight, x);
  check_vector(op, "dbias", dbias, x);
  if (fusion.output.defined()) check_like(op, "output", fusion.output, x);
  if (fusion.relu && fusion.dresidual != nullptr && !fusion.output.defined())
    fail("{}: the output is needed for the gradient of a residual that was added before ReLU", op);
  const Tensor output = given.relu ? laid_out_as(fusion.output, x) : Tensor();
  if (!dy.has_layout_of(x)) dy = Tensor::empty_like(x).copy_from(dy);
  const bool dy_is_ours = dy.is_unique(), residual_wants = fusion.dresidual != nullptr;
  Tensor sums, dz = dy;
  if (training || dweight.defined() || dbias.defined())
    sums = Tensor::empty({2, given.layout.channels}, {.dtype = DType::float64, .device = x.device()});
  if (output.defined() && !dy_is_ours) dz = Tensor::empty_like(x);
  // dz, or dy in its place, is overwritten in the end unless somebody wants it.
  const bool dz_is_free = !residual_wants && (output.defined() || dy_is_ours);
  Tensor dx = dz_is_free ? dz : Tensor::empty_like(x);
  TANDEM_DISPATCH(op, x.device(), batch_norm_backward, given, dy, output, training, sums, dz, dx);
  if (residual_wants) *fusion.dresidual = dz;
  store_gradient(op, sums, 0, dbias, accumulate);
  store_gradient(op, sums, 1, dweight, accumulate);
  return dx;
}

}  // namespace

BatchNormForward batch_norm_training(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                                     const BatchNormFusion& fusion) {
  constexpr const char* kOp = "batch_norm";
  check_forward(kOp, x, weight, bias, fusion);
  const std::int64_t channels = x.shape()[1];
  BatchNormOperands given = operands_of(x, weight, bias, fusion.relu);
  const TensorOptions vector{.dtype = statistics_dtype(x), .device = x.device()};
  given.mean = Tensor::empty({channels}, vector);
  Tensor variance = Tensor::empty({channels}, vector);
  if (x.numel() == 0) {
    given.mean.fill(0);
    variance.fill(1);
  } else {
    TANDEM_DISPATCH(kOp, x.device(), batch_norm_statistics, given.x, given.layout, given.mean, variance);
  }
  given.inv_std = inv_std_of(kOp, variance, eps);
  return {
      .output = apply(kOp, given, fusion.residual), .mean = given.mean, .inv_std = given.inv_std, .variance = variance};
}

Tensor batch_norm_again(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& mean,
                        const Tensor& inv_std, bool relu) {
  constexpr const char* kOp = "batch_norm_again";
  check_forward(kOp, x, weight, bias, {});
  check_required(kOp, "mean", mean, x);
  check_required(kOp, "inv_std", inv_std, x);
  BatchNormOperands given = operands_of(x, weight, bias, relu);
  given.mean = prepared(mean, x);
  given.inv_std = prepared(inv_std, x);
  return apply(kOp, given, {});
}

Tensor batch_norm_inference(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& running_mean,
                            const Tensor& running_variance, double eps, const BatchNormFusion& fusion) {
  constexpr const char* kOp = "batch_norm_inference";
  check_forward(kOp, x, weight, bias, fusion);
  check_required(kOp, "running_mean", running_mean, x);
  check_required(kOp, "running_variance", running_variance, x);
  BatchNormOperands given = operands_of(x, weight, bias, fusion.relu);
  given.mean = prepared(running_mean, x);
  given.inv_std = inv_std_of(kOp, prepared(running_variance, x), eps);
  return apply(kOp, given, fusion.residual);
}

Tensor batch_norm_backward(Tensor dy, const Tensor& x, const Tensor& weight, const Tensor& mean, const Tensor& inv_std,
                           Tensor& dweight, Tensor& dbias, bool accumulate, const BatchNormFusionBackward& fusion) {
  constexpr const char* kOp = "batch_norm_backward";
  check_forward(kOp, x, weight, fusion.bias, {});
  check_like(kOp, "gradient", dy, x);
  check_required(kOp, "mean", mean, x);
  check_required(kOp, "inv_std", inv_std, x);
  BatchNormOperands given = operands_of(x, weight, fusion.bias, fusion.relu);
  given.mean = prepared(mean, x);
  given.inv_std = prepared(inv_std, x);
  return backward(kOp, std::move(dy), given, true, dweight, dbias, accumulate, fusion);
}

Tensor batch_norm_inference_backward(Tensor dy, const Tensor& x, const Tensor& weight, const Tensor& running_mean,
                                     const Tensor& running_variance, double eps, Tensor& dweight, Tensor& dbias,
                                     bool accumulate, const BatchNormFusionBackward& fusion) {
  constexpr const char* kOp = "batch_norm_inference_backward";
  check_forward(kOp, x, weight, fusion.bias, {});
  check_like(kOp, "gradient", dy, x);
  check_required(kOp, "running_mean", running_mean, x);
  check_required(kOp, "running_variance", running_variance, x);
  BatchNormOperands given = operands_of(x, weight, fusion.bias, fusion.relu);
  given.mean = prepared(running_mean, x);
  given.inv_std = inv_std_of(kOp, prepared(running_variance, x), eps);
  return backward(kOp, std::move(dy), given, false, dweight, dbias, accumulate, fusion);
}

}  // namespace tandem::core
