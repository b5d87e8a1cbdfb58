#include "tandem/core/ops/softmax.h"

#include "tandem/core/ops/dispatch.h"

namespace tandem::core {
namespace {

// `dim` from the front; a scalar has a dimension 0 here.
int checked_dim(const char* op, const Tensor& x, int dim) {
  if (!is_floating(x.dtype())) fail("{}: needs a floating dtype, got {}", op, name(x.dtype()));
  return normalize_dim(op, dim, std::max(1, x.rank()));
}

void check_gradient(const char* op, const Tensor& dy, const Tensor& y) {
  if (dy.shape() != y.shape() || dy.dtype() != y.dtype())
    fail("{}: gradient {} {} does not match result {} {}", op, name(dy.dtype()), dy.shape().str(), name(y.dtype()),
         y.shape().str());
}

// `tensor`, in the memory order of `other`.
Tensor laid_out_as(const Tensor& other, const Tensor& tensor) {
  return tensor.strides() == other.strides() ? tensor : Tensor::empty_like(other).copy_from(tensor);
}

}  // namespace

Tensor softmax(const Tensor& x, int dim) {
  dim = checked_dim("softmax", x, dim);
  const Tensor dense = x.is_dense() ? x : x.contiguous();
  Tensor y = Tensor::empty_like(dense);
  if (y.numel() > 0) TANDEM_DISPATCH("softmax", x.device(), softmax, dense, dim, y);
  return y;
}

Tensor log_softmax(const Tensor& x, int dim) {
  dim = checked_dim("log_softmax", x, dim);
  const Tensor dense = x.is_dense() ? x : x.contiguous();
  Tensor y = Tensor::empty_like(dense);
  if (y.numel() > 0) TANDEM_DISPATCH("log_softmax", x.device(), log_softmax, dense, dim, y);
  return y;
}

Tensor softmax_backward(const Tensor& dy, const Tensor& y, int dim) {
  check_gradient("softmax_backward", dy, y);
  dim = checked_dim("softmax_backward", y, dim);
  const Tensor dense = y.is_dense() ? y : y.contiguous();
  Tensor dx = Tensor::empty_like(dense);
  if (dx.numel() > 0)
    TANDEM_DISPATCH("softmax_backward", y.device(), softmax_backward, laid_out_as(dense, dy), dense, dim, dx);
  return dx;
}

Tensor log_softmax_backward(const Tensor& dy, const Tensor& y, int dim) {
  check_gradient("log_softmax_backward", dy, y);
  dim = checked_dim("log_softmax_backward", y, dim);
  const Tensor dense = y.is_dense() ? y : y.contiguous();
  Tensor dx = Tensor::empty_like(dense);
  if (dx.numel() > 0)
    TANDEM_DISPATCH("log_softmax_backward", y.device(), log_softmax_backward, laid_out_as(dense, dy), dense, dim, dx);
  return dx;
}

}  // namespace tandem::core
