#include "tandem/core/ops/max_pool2d.h"

#include "tandem/core/ops/dispatch.h"

namespace tandem::core {
namespace {

MaxPool2dResult forward(const Tensor& x, const PoolWindows& windows) {
  const MemoryFormat format = pool_format(x);
  const Shape shape{x.shape()[0], x.shape()[1], windows.rows.count, windows.columns.count};
  const DType index = windows.widest() * windows.highest() <= 256 ? DType::uint8 : DType::int32;
  MaxPool2dResult result{Tensor::empty(shape, {.dtype = x.dtype(), .device = x.device(), .format = format}),
                         Tensor::empty(shape, {.dtype = index, .device = x.device(), .format = format})};
  if (result.output.numel() == 0) return result;
  TANDEM_DISPATCH("max_pool2d", x.device(), max_pool2d, x.contiguous(format), windows, format, result.output,
                  result.indices);
  return result;
}

Tensor backward(const char* op, const Tensor& dy, const Tensor& indices, const Shape& input_shape,
                const PoolWindows& windows) {
  const Shape wanted{input_shape[0], input_shape[1], windows.rows.count, windows.columns.count};
  if (dy.shape() != wanted || indices.shape() != wanted)
    fail("{}: dy {} and indices {} must be {} for x {}", op, dy.shape().str(), indices.shape().str(), wanted.str(),
         input_shape.str());
  const DType index = windows.widest() * windows.highest() <= 256 ? DType::uint8 : DType::int32;
  if (indices.dtype() != index) fail("{}: indices are {}, not {}", op, name(indices.dtype()), name(index));
  const MemoryFormat format = pool_format(indices);
  Tensor dx = Tensor::empty(input_shape, {.dtype = dy.dtype(), .device = dy.device(), .format = format});
  if (dx.numel() == 0) return dx;
  TANDEM_DISPATCH("max_pool2d_backward", dy.device(), max_pool2d_backward, dy.contiguous(format),
                  indices.contiguous(format), windows, format, dx);
  return dx;
}

}  // namespace

MaxPool2dResult max_pool2d(const Tensor& x, const Pool2dOptions& options) {
  return forward(x, pool_windows("max_pool2d", x.shape(), options));
}

Tensor max_pool2d_backward(const Tensor& dy, const Tensor& indices, const Shape& input_shape,
                           const Pool2dOptions& options) {
  return backward("max_pool2d_backward", dy, indices, input_shape,
                  pool_windows("max_pool2d_backward", input_shape, options));
}

MaxPool2dResult adaptive_max_pool2d(const Tensor& x, std::array<std::int64_t, 2> output) {
  return forward(x, adaptive_windows("adaptive_max_pool2d", x.shape(), output));
}

Tensor adaptive_max_pool2d_backward(const Tensor& dy, const Tensor& indices, const Shape& input_shape) {
  if (dy.rank() != 4) fail("adaptive_max_pool2d_backward: dy [N, C, H, W] is needed, got {}", dy.shape().str());
  return backward("adaptive_max_pool2d_backward", dy, indices, input_shape,
                  adaptive_windows("adaptive_max_pool2d_backward", input_shape, {dy.shape()[2], dy.shape()[3]}));
}

}  // namespace tandem::core
