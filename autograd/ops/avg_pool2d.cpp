#include "tandem/core/ops/avg_pool2d.h"

#include "tandem/autograd/node.h"
#include "tandem/autograd/ops.h"

namespace tandem::autograd {

Variable avg_pool2d(const Variable& x, const core::Pool2dOptions& options, bool count_include_pad) {
  return record("avg_pool2d", core::avg_pool2d(x.data(), options, count_include_pad), {x},
                [shape = x.shape(), options, count_include_pad](Tensor dy, Gradients& dx) {
                  dx.add(0, core::avg_pool2d_backward(dy, shape, options, count_include_pad));
                });
}

Variable adaptive_avg_pool2d(const Variable& x, std::array<std::int64_t, 2> size) {
  return record(
      "adaptive_avg_pool2d", core::adaptive_avg_pool2d(x.data(), size), {x},
      [shape = x.shape()](Tensor dy, Gradients& dx) { dx.add(0, core::adaptive_avg_pool2d_backward(dy, shape)); });
}

}  // namespace tandem::autograd
