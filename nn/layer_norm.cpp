#include "tandem/nn/layer_norm.h"

namespace tandem::nn {

LayerNorm::LayerNorm(std::int64_t features, double eps)
    : weight_(register_parameter("weight", Tensor::full({features}, 1))),
      bias_(register_parameter("bias", Tensor::zeros({features}))),
      eps_(eps) {}

Variable LayerNorm::forward(const Variable& x) { return autograd::layer_norm(x, weight_, bias_, eps_); }

}  // namespace tandem::nn
