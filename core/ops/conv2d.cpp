#include "tandem/core/ops/conv2d.h"

#include "tandem/core/ops/dispatch.h"
#include "tandem/core/ops/linear.h"
#include "tandem/core/ops/mixed_precision.h"

namespace tandem::core {
namespace {

constexpr TensorOptions channels_last(DType dtype, Device device) {
  return {.dtype = dtype, .device = device, .format = MemoryFormat::channels_last};
}

void check_dtypes(const char* op, const Tensor& dy, const char* what, const Tensor& other) {
  if (dy.dtype() != other.dtype())
    fail("{}: dtypes differ: {} {}, dy {}", op, what, name(other.dtype()), name(dy.dtype()));
}

void check_gradient(const char* op, const Tensor& dy, const Tensor& gradient, const Shape& shape) {
  if (gradient.shape() != shape)
    fail("{}: gradient destination is {}, needed is {}", op, gradient.shape().str(), shape.str());
  check_parameter_dtype(op, "gradient", gradient, dy);
}

void check_output(const char* op, const Tensor& dy, const Shape& x, const Shape& weight, const Conv2dOptions& options) {
  const Shape wanted = conv2d_shape(x, weight, options);
  if (dy.shape() != wanted)
    fail("{}: dy is {}, but x {} and weight {} give {}", op, dy.shape().str(), x.str(), weight.str(), wanted.str());
}

// A multiply-add for every element of y and every weight of its filter.
double product_flops(const Tensor& y, const Tensor& weight) {
  return 2.0 * static_cast<double>(y.numel()) * static_cast<double>(weight.numel() / weight.shape()[0]);
}

}  // namespace

Shape conv2d_shape(const Shape& x, const Shape& weight, const Conv2dOptions& options) {
  if (x.rank() != 4 || weight.rank() != 4)
    fail("conv2d: x [N, C, H, W] and weight [O, C / groups, KH, KW] are needed, got {} and {}", x.str(), weight.str());
  const std::int64_t groups = options.groups;
  if (groups < 1 || x[1] != weight[1] * groups || weight[0] % groups != 0)
    fail("conv2d: channels do not fit: x {} and weight {} with {} groups", x.str(), weight.str(), groups);
  Shape y{x[0], weight[0], 0, 0};
  for (int i = 0; i < 2; ++i) {
    const auto d = static_cast<std::size_t>(i);
    if (options.stride[d] < 1 || options.dilation[d] < 1 || options.padding[d] < 0)
      fail("conv2d: stride {}, dilation {}, padding {}: the first two must be positive, the last not negative",
           options.stride[d], options.dilation[d], options.padding[d]);
    const std::int64_t padded = x[2 + i] + 2 * options.padding[d];
    const std::int64_t reach = options.dilation[d] * (weight[2 + i] - 1) + 1;
    if (weight[2 + i] < 1 || padded < reach)
      fail("conv2d: the kernel of weight {} does not fit into x {} with padding {}", weight.str(), x.str(),
           options.padding[d]);
    y[2 + i] = (padded - reach) / options.stride[d] + 1;
  }
  return y;
}

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dOptions& options) {
  const Shape shape = conv2d_shape(x.shape(), weight.shape(), options);
  check_parameter_dtype("conv2d", "weight", weight, x);
  if (bias.defined()) {
    if (bias.shape() != Shape{shape[1]})
      fail("conv2d: bias {} does not fit weight {}", bias.shape().str(), weight.shape().str());
    check_parameter_dtype("conv2d", "bias", bias, x);
  }
  Tensor y = Tensor::empty(shape, channels_last(x.dtype(), x.device()));
  if (y.numel() == 0) return y;
  TANDEM_DISPATCH_FLOPS("conv2d", x.device(), product_flops(y, weight), conv2d, x, weight, bias, options, y);
  return y;
}

Tensor conv2d_backward_input(const Tensor& dy, const Tensor& weight, const Shape& input_shape,
                             const Conv2dOptions& options) {
  check_output("conv2d_backward_input", dy, input_shape, weight.shape(), options);
  check_parameter_dtype("conv2d_backward_input", "weight", weight, dy);
  Tensor dx = Tensor::empty(input_shape, channels_last(dy.dtype(), dy.device()));
  if (dx.numel() == 0) return dx;
  TANDEM_DISPATCH_FLOPS("conv2d_backward_input", dy.device(), product_flops(dy, weight), conv2d_backward_input, dy,
                        weight, options, dx);
  return dx;
}

void conv2d_backward_weight(const Tensor& dy, const Tensor& x, Tensor& dweight, bool accumulate,
                            const Conv2dOptions& options) {
  check_output("conv2d_backward_weight", dy, x.shape(), dweight.shape(), options);
  check_dtypes("conv2d_backward_weight", dy, "x", x);
  check_gradient("conv2d_backward_weight", dy, dweight, dweight.shape());
  if (dweight.numel() == 0) return;
  if (dy.numel() == 0) {
    if (!accumulate) dweight.fill(0);
    return;
  }
  TANDEM_DISPATCH_FLOPS("conv2d_backward_weight", dy.device(), product_flops(dy, dweight), conv2d_backward_weight, dy,
                        x, dweight, accumulate, options);
}

void conv2d_backward_bias(const Tensor& dy, Tensor& dbias, bool accumulate) {
  if (dy.rank() != 4) fail("conv2d_backward_bias: dy [N, C, H, W] is needed, got {}", dy.shape().str());
  check_gradient("conv2d_backward_bias", dy, dbias, {dy.shape()[1]});
  // Channels-last pixels are the rows of a matrix.
  linear_backward_bias(dy.permute({0, 2, 3, 1}), dbias, accumulate);
}

Tensor conv2d_relu_backward(Tensor dy, const Tensor& y, Tensor& dbias, bool accumulate) {
  if (dy.rank() != 4 || dy.shape() != y.shape())
    fail("conv2d_relu_backward: dy {} and y {} must be of one shape [N, C, H, W]", dy.shape().str(), y.shape().str());
  check_dtypes("conv2d_relu_backward", dy, "y", y);
  if (dbias.defined()) check_gradient("conv2d_relu_backward", dy, dbias, {dy.shape()[1]});
  const bool in_place = dy.is_unique() && dy.is_channels_last();
  Tensor masked = in_place ? dy : Tensor::empty(dy.shape(), channels_last(dy.dtype(), dy.device()));
  if (dy.numel() == 0) {
    if (dbias.defined() && !accumulate) dbias.fill(0);
    return masked;
  }
  TANDEM_DISPATCH("conv2d_relu_backward", dy.device(), conv2d_relu_backward, dy, y, masked, dbias, accumulate);
  return masked;
}

ReorderStatistics reorder_statistics() { return cpu::reorder_statistics(); }

}  // namespace tandem::core
