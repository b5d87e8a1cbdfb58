#include "tandem/core/ops/dropout.h"

#include "tandem/core/ops/dispatch.h"

namespace tandem::core {
namespace {

void check_probability(const char* op, double p) {
  if (!(p >= 0 && p <= 1)) fail("{}: probability {} is not in [0, 1]", op, p);
}

}  // namespace

DropoutResult dropout(const Tensor& x, double p, const PhiloxStream& stream) {
  check_probability("dropout", p);
  const std::int64_t n = x.numel();
  if (n > std::int64_t{1} << 34) fail("dropout: {} has more elements than a random stream has words", x.shape().str());
  const Tensor dense = x.is_dense() ? x : x.contiguous();
  DropoutResult result{.output = Tensor::empty_like(dense),
                       .mask = Tensor::empty({n}, {.dtype = DType::uint8, .device = x.device()})};
  result.mask = Tensor(result.mask.storage(), dense.shape(), result.output.strides(), 0, DType::uint8);
  if (n > 0) TANDEM_DISPATCH("dropout", x.device(), dropout, dense, p, stream, result.output, result.mask);
  return result;
}

Tensor dropout_backward(Tensor dy, const Tensor& mask, double p) {
  check_probability("dropout_backward", p);
  if (dy.shape() != mask.shape())
    fail("dropout_backward: gradient {} and mask {} differ in shape", dy.shape().str(), mask.shape().str());
  if (mask.dtype() != DType::uint8) fail("dropout_backward: the mask is {}, not uint8", name(mask.dtype()));
  const bool reuses = dy.is_unique() && dy.strides() == mask.strides() && dy.is_dense();
  Tensor dx = dy;
  if (!reuses) {
    dx = Tensor::empty(mask.shape(), dy.options());
    if (mask.is_dense()) dx = Tensor(dx.storage(), mask.shape(), mask.strides(), 0, dy.dtype());
  }
  if (dy.numel() > 0) TANDEM_DISPATCH("dropout_backward", dy.device(), dropout_backward, dy, mask, p, dx);
  return dx;
}

}  // namespace tandem::core
