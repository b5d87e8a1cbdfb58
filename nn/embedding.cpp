#include "tandem/nn/embedding.h"

namespace tandem::nn {

Embedding::Embedding(std::int64_t rows, std::int64_t features, Generator& random, std::int64_t padding_idx)
    : padding_idx_(padding_idx) {
  if (padding_idx < -1 || padding_idx >= rows)
    core::fail("embedding: padding_idx {} is not one of the {} rows, nor -1", padding_idx, rows);
  Tensor weight = Tensor::empty({rows, features});
  core::fill_normal(weight, 0, 1, random.next());
  if (padding_idx >= 0) weight.select(0, padding_idx).fill(0);
  weight_ = register_parameter("weight", std::move(weight));
}

Variable Embedding::forward(const Tensor& indices) { return autograd::embedding(weight_, indices, padding_idx_); }

}  // namespace tandem::nn
