#include "tandem/core/ops/dropout_add_layer_norm.h"

#include "tandem/core/ops/dispatch.h"
#include "tandem/core/ops/layer_norm.h"

namespace tandem::core {

// Statistics are small.
static double moved_bytes(const DropoutAddLayerNormForward& forward) {
  return moved_bytes(forward.output) + moved_bytes(forward.sum) + moved_bytes(forward.mask);
}

namespace {

void check_probability(const char* op, double p) {
  if (!(p >= 0 && p <= 1)) fail("{}: probability {} is not in [0, 1]", op, p);
}

void check_inputs(const char* op, const Tensor& x, const Tensor& residual, double p) {
  if (x.rank() < 1) fail("{}: x needs to be [..., D], got {}", op, x.shape().str());
  if (!is_floating(x.dtype())) fail("{}: x needs a floating dtype, got {}", op, name(x.dtype()));
  if (residual.shape() != x.shape() || residual.dtype() != x.dtype())
    fail("{}: residual {} {} does not match x {} {}", op, name(residual.dtype()), residual.shape().str(),
         name(x.dtype()), x.shape().str());
  check_probability(op, p);
  if (p > 0 && x.numel() > std::int64_t{1} << 34)
    fail("{}: {} has more elements than a random stream has words", op, x.shape().str());
}

}  // namespace

DropoutAddLayerNormForward dropout_add_layer_norm(const Tensor& x, const Tensor& residual, const Tensor& weight,
                                                  const Tensor& bias, double eps, double p,
                                                  const PhiloxStream& stream) {
  constexpr const char* kOp = "dropout_add_layer_norm";
  check_inputs(kOp, x, residual, p);
  check_row_vector(kOp, "weight", weight, x);
  check_row_vector(kOp, "bias", bias, x);
  DropoutAddLayerNormForward result{.output = Tensor::empty(x.shape(), x.options()),
                                    .sum = Tensor::empty(x.shape(), x.options()),
                                    .mask = {},
                                    .mean = row_statistics(x),
                                    .inv_std = row_statistics(x)};
  if (p > 0) result.mask = Tensor::empty(x.shape(), {.dtype = DType::uint8, .device = x.device()});
  if (x.numel() > 0)
    TANDEM_DISPATCH(kOp, x.device(), dropout_add_layer_norm, x.contiguous(), residual.contiguous(),
                    row_vector(weight, 1, x), row_vector(bias, 0, x), eps, p, stream, result);
  return result;
}

DropoutAddGradients dropout_add_layer_norm_backward(Tensor dy, const DropoutAddLayerNormForward& forward,
                                                    const Tensor& weight, double p, Tensor& dweight, Tensor& dbias,
                                                    bool accumulate) {
  constexpr const char* kOp = "dropout_add_layer_norm_backward";
  const Tensor& sum = forward.sum;
  check_probability(kOp, p);
  if (!forward.mask.defined() || sum.numel() == 0) {
    const Tensor both =
        layer_norm_backward(std::move(dy), sum, weight, forward.mean, forward.inv_std, dweight, dbias, accumulate);
    return {both, both};
  }
  if (dy.shape() != sum.shape() || dy.dtype() != sum.dtype())
    fail("{}: gradient {} {} does not match x {} {}", kOp, name(dy.dtype()), dy.shape().str(), name(sum.dtype()),
         sum.shape().str());
  check_row_vector(kOp, "weight", weight, sum);
  check_row_vector(kOp, "dweight", dweight, sum);
  check_row_vector(kOp, "dbias", dbias, sum);
  const bool reuses = dy.is_unique() && dy.is_contiguous();
  DropoutAddGradients result{.x = Tensor::empty(sum.shape(), sum.options()),
                             .residual = reuses ? dy : Tensor::empty(sum.shape(), sum.options())};
  TANDEM_DISPATCH(kOp, sum.device(), dropout_add_layer_norm_backward, dy.contiguous(), forward,
                  row_vector(weight, 1, sum), p, result.x, result.residual, dweight, dbias, accumulate);
  return result;
}

}  // namespace tandem::core
