#include "tandem/core/ops/attention.h"

#include <cmath>

#include "tandem/core/ops/dispatch.h"

namespace tandem::core {

static double moved_bytes(const AttentionForward& forward) {
  return moved_bytes(forward.output) + moved_bytes(forward.log_sum_exp);
}
static double moved_bytes(const AttentionGradients& gradients) {
  return moved_bytes(gradients.q) + moved_bytes(gradients.k) + moved_bytes(gradients.v);
}

namespace {

void check_inputs(const char* op, const Tensor& q, const Tensor& k, const Tensor& v) {
  if (q.rank() != 3 || k.rank() != 3 || k.shape() != v.shape() || q.shape()[0] != k.shape()[0] ||
      q.shape()[2] != k.shape()[2])
    fail("{}: q [N, S, D], k and v [N, T, D] do not fit: {}, {} and {}", op, q.shape().str(), k.shape().str(),
         v.shape().str());
  if (q.dtype() != k.dtype() || q.dtype() != v.dtype())
    fail("{}: dtypes differ: q {}, k {}, v {}", op, name(q.dtype()), name(k.dtype()), name(v.dtype()));
  if (!is_floating(q.dtype())) fail("{}: needs a floating dtype, got {}", op, name(q.dtype()));
}

void check_options(const char* op, const Tensor& q, const Tensor& k, const AttentionOptions& options) {
  const std::int64_t batch = q.shape()[0], places = k.shape()[1], features = q.shape()[2];
  if (options.heads < 1 || features % options.heads != 0)
    fail("{}: {} heads do not divide the {} features of q {}", op, options.heads, features, q.shape().str());
  const Tensor& mask = options.mask;
  if (mask.defined() && mask.dtype() != DType::int64 && mask.dtype() != DType::boolean)
    fail("{}: the mask needs to be int64 or bool, got {}", op, name(mask.dtype()));
  if (mask.defined() && mask.shape() != Shape{batch, places})
    fail("{}: mask {} is not [N, T] of k {}", op, mask.shape().str(), k.shape().str());
  const double p = options.dropout_p;
  if (!(p >= 0 && p <= 1)) fail("{}: probability {} is not in [0, 1]", op, p);
  if (p > 0 && batch * options.heads * q.shape()[1] > (std::int64_t{1} << 34) / std::max<std::int64_t>(1, places))
    fail("{}: q {} and k {} with {} heads have more probabilities than a random stream has words", op, q.shape().str(),
         k.shape().str(), options.heads);
}

Tensor with_adjacent_features(const Tensor& x) { return x.strides()[2] == 1 || x.shape()[2] == 1 ? x : x.contiguous(); }

AttentionOptions as_kernels_take(AttentionOptions options, const Tensor& q) {
  if (options.mask.defined()) options.mask = options.mask.to(DType::boolean).contiguous();
  if (!options.scale) options.scale = 1 / std::sqrt(static_cast<double>(q.shape()[2] / options.heads));
  return options;
}

// Of one product over all heads: q k^T, or P v. Forward has two, backward four and q k^T once more.
double product_flops(const Tensor& q, const Tensor& k) {
  return 2.0 * static_cast<double>(q.numel()) * static_cast<double>(k.shape()[1]);
}

}  // namespace

AttentionForward attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  constexpr const char* kOp = "attention";
  check_inputs(kOp, q, k, v);
  check_options(kOp, q, k, options);
  const DType statistics = q.dtype() == DType::float64 ? DType::float64 : DType::float32;
  AttentionForward result{.output = Tensor::empty(q.shape(), q.options()),
                          .log_sum_exp = Tensor::empty({q.shape()[0], options.heads, q.shape()[1]},
                                                       {.dtype = statistics, .device = q.device()})};
  if (result.output.numel() == 0 || k.numel() == 0) {
    result.output.fill(0);
    return result;
  }
  TANDEM_DISPATCH_FLOPS(kOp, q.device(), 2 * product_flops(q, k), attention, with_adjacent_features(q),
                        with_adjacent_features(k), with_adjacent_features(v), as_kernels_take(options, q), result);
  return result;
}

AttentionGradients attention_backward(const Tensor& dy, const Tensor& q, const Tensor& k, const Tensor& v,
                                      const AttentionForward& forward, const AttentionOptions& options) {
  constexpr const char* kOp = "attention_backward";
  check_inputs(kOp, q, k, v);
  check_options(kOp, q, k, options);
  if (dy.shape() != q.shape() || dy.dtype() != q.dtype())
    fail("{}: gradient {} {} does not match q {} {}", kOp, name(dy.dtype()), dy.shape().str(), name(q.dtype()),
         q.shape().str());
  if (forward.output.shape() != q.shape() ||
      forward.log_sum_exp.shape() != Shape{q.shape()[0], options.heads, q.shape()[1]})
    fail("{}: output {} and log_sum_exp {} are not what forward gave for q {} and {} heads", kOp,
         forward.output.shape().str(), forward.log_sum_exp.shape().str(), q.shape().str(), options.heads);
  AttentionGradients result{.q = Tensor::empty(q.shape(), q.options()),
                            .k = Tensor::empty(k.shape(), k.options()),
                            .v = Tensor::empty(v.shape(), v.options())};
  if (q.numel() == 0 || k.numel() == 0) {
    for (Tensor* gradient : {&result.q, &result.k, &result.v}) gradient->fill(0);
    return result;
  }
  TANDEM_DISPATCH_FLOPS(kOp, q.device(), 5 * product_flops(q, k), attention_backward, dy.contiguous(),
                        with_adjacent_features(q), with_adjacent_features(k), with_adjacent_features(v), forward,
                        as_kernels_take(options, q), result);
  return result;
}

}  // namespace tandem::core
