#include "tandem/core/ops/avg_pool2d.h"

#include "tandem/core/ops/dispatch.h"

namespace tandem::core {
namespace {

PoolWindows windows_of(const char* op, const Shape& x, const Pool2dOptions& options, bool count_include_pad) {
  PoolWindows windows = pool_windows(op, x, options);
  windows.rows.padding_counts = windows.columns.padding_counts = count_include_pad;
  return windows;
}

Tensor forward(const Tensor& x, const PoolWindows& windows) {
  const MemoryFormat format = pool_format(x);
  Tensor y = Tensor::empty({x.shape()[0], x.shape()[1], windows.rows.count, windows.columns.count},
                           {.dtype = x.dtype(), .device = x.device(), .format = format});
  if (y.numel() == 0) return y;
  TANDEM_DISPATCH("avg_pool2d", x.device(), avg_pool2d, x.contiguous(format), windows, format, y);
  return y;
}

Tensor backward(const char* op, const Tensor& dy, const Shape& input_shape, const PoolWindows& windows) {
  const Shape wanted{input_shape[0], input_shape[1], windows.rows.count, windows.columns.count};
  if (dy.shape() != wanted)
    fail("{}: dy {} must be {} for x {}", op, dy.shape().str(), wanted.str(), input_shape.str());
  const MemoryFormat format = pool_format(dy);
  Tensor dx = Tensor::empty(input_shape, {.dtype = dy.dtype(), .device = dy.device(), .format = format});
  if (dx.numel() == 0) return dx;
  TANDEM_DISPATCH("avg_pool2d_backward", dy.device(), avg_pool2d_backward, dy.contiguous(format), windows, format, dx);
  return dx;
}

}  // namespace

Tensor avg_pool2d(const Tensor& x, const Pool2dOptions& options, bool count_include_pad) {
  return forward(x, windows_of("avg_pool2d", x.shape(), options, count_include_pad));
}

Tensor avg_pool2d_backward(const Tensor& dy, const Shape& input_shape, const Pool2dOptions& options,
                           bool count_include_pad) {
  return backward("avg_pool2d_backward", dy, input_shape,
                  windows_of("avg_pool2d_backward", input_shape, options, count_include_pad));
}

Tensor adaptive_avg_pool2d(const Tensor& x, std::array<std::int64_t, 2> output) {
  return forward(x, adaptive_windows("adaptive_avg_pool2d", x.shape(), output));
}

Tensor adaptive_avg_pool2d_backward(const Tensor& dy, const Shape& input_shape) {
  if (dy.rank() != 4) fail("adaptive_avg_pool2d_backward: dy [N, C, H, W] is needed, got {}", dy.shape().str());
  return backward("adaptive_avg_pool2d_backward", dy, input_shape,
                  adaptive_windows("adaptive_avg_pool2d_backward", input_shape, {dy.shape()[2], dy.shape()[3]}));
}

}  // namespace tandem::core
