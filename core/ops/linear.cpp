#include "tandem/core/ops/linear.h"

#include "tandem/core/ops/dispatch.h"
#include "tandem/core/ops/mixed_precision.h"

namespace tandem::core {
namespace {

// [..., size] as [rows, size]; without a copy where strides permit.
Tensor as_rows(const Tensor& t) {
  if (t.rank() == 2) return t;
  const std::int64_t columns = t.shape().back();
  std::int64_t rows = 1;
  for (int d = 0; d < t.rank() - 1; ++d) rows *= t.shape()[d];
  return t.reshape({rows, columns});
}

Shape with_last(const Shape& shape, std::int64_t size) {
  Shape result = shape;
  result[result.rank() - 1] = size;
  return result;
}

double product_flops(const Tensor& rows, const Tensor& weight) {
  return 2.0 * static_cast<double>(rows.shape()[0]) * static_cast<double>(weight.numel());
}

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (x.rank() < 1 || weight.rank() != 2 || x.shape().back() != weight.shape()[1])
    fail("linear: x [..., in] and weight [out, in] do not fit: {} and {}", x.shape().str(), weight.shape().str());
  check_parameter_dtype("linear", "weight", weight, x);
  if (bias.defined()) {
    if (bias.shape() != Shape{weight.shape()[0]})
      fail("linear: bias {} does not fit weight {}", bias.shape().str(), weight.shape().str());
    check_parameter_dtype("linear", "bias", bias, x);
  }
  Tensor y = Tensor::empty(with_last(x.shape(), weight.shape()[0]), x.options());
  if (y.numel() == 0) return y;
  Tensor rows = as_rows(y);
  TANDEM_DISPATCH_FLOPS("linear", x.device(), product_flops(rows, weight), linear, as_rows(x), weight, bias, rows);
  return y;
}

Tensor linear_backward_input(const Tensor& dy, const Tensor& weight) {
  if (dy.rank() < 1 || weight.rank() != 2 || dy.shape().back() != weight.shape()[0])
    fail("linear_backward_input: dy [..., out] and weight [out, in] do not fit: {} and {}", dy.shape().str(),
         weight.shape().str());
  check_parameter_dtype("linear_backward_input", "weight", weight, dy);
  Tensor dx = Tensor::empty(with_last(dy.shape(), weight.shape()[1]), dy.options());
  if (dx.numel() == 0) return dx;
  Tensor rows = as_rows(dx);
  TANDEM_DISPATCH_FLOPS("linear_backward_input", dy.device(), product_flops(rows, weight), linear_backward_input,
                        as_rows(dy), weight, rows);
  return dx;
}

void linear_backward_weight(const Tensor& dy, const Tensor& x, Tensor& dweight, bool accumulate) {
  if (dy.rank() < 1 || dy.rank() != x.rank() || with_last(dy.shape(), 1) != with_last(x.shape(), 1))
    fail("linear_backward_weight: dy [..., out] and x [..., in] do not fit: {} and {}", dy.shape().str(),
         x.shape().str());
  if (dweight.shape() != Shape{dy.shape().back(), x.shape().back()})
    fail("linear_backward_weight: dy {} and x {} do not give {}", dy.shape().str(), x.shape().str(),
         dweight.shape().str());
  if (x.dtype() != dy.dtype())
    fail("linear_backward_weight: dtypes differ: x {}, dy {}", name(x.dtype()), name(dy.dtype()));
  check_parameter_dtype("linear_backward_weight", "gradient", dweight, dy);
  if (dweight.numel() == 0) return;
  const Tensor rows = as_rows(dy);
  TANDEM_DISPATCH_FLOPS("linear_backward_weight", dy.device(), product_flops(rows, dweight), linear_backward_weight,
                        rows, as_rows(x), dweight, accumulate);
}

void linear_backward_bias(const Tensor& dy, Tensor& dbias, bool accumulate) {
  if (dy.rank() < 1 || dbias.shape() != Shape{dy.shape().back()})
    fail("linear_backward_bias: dy {} does not give {}", dy.shape().str(), dbias.shape().str());
  check_parameter_dtype("linear_backward_bias", "gradient", dbias, dy);
  if (dbias.numel() == 0) return;
  TANDEM_DISPATCH("linear_backward_bias", dy.device(), linear_backward_bias, as_rows(dy), dbias, accumulate);
}

}  // namespace tandem::core
