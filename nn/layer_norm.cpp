#include "tandem/nn/layer_norm.h"

namespace tandem::nn {

LayerNorm::LayerNorm(std::int64_t features, double eps)
    : weight_(register_parameter("weight", Tensor::full({features}, 1))),
      bias_(register_parameter("bias", Tensor::zeros({features}))),
      eps_(eps) {}

Variable LayerNorm::forward(const Variable& x) { return autograd::layer_norm(x, weight_, bias_, eps_); }

Variable LayerNorm::forward_add(const Variable& x, const Variable& residual, Dropout& dropout) {
  const auto [p, stream] = dropout.next_draw();
  return autograd::dropout_add_layer_norm(x, residual, weight_, bias_, eps_, p, stream);
}

}  // namespace tandem::nn
