#include "tandem/nn/embedding.h"

#include "tandem/nn/init.h"

namespace tandem::nn {

Embedding::Embedding(std::int64_t rows, std::int64_t features, Generator& random, const EmbeddingOptions& options)
    : padding_idx_(options.padding_idx) {
  if (padding_idx_ < -1 || padding_idx_ >= rows)
    core::fail("embedding: padding_idx {} is not one of the {} rows, nor -1", padding_idx_, rows);
  Tensor weight = normal({rows, features}, options.init_deviation, random);
  if (padding_idx_ >= 0) weight.select(0, padding_idx_).fill(0);
  weight_ = register_parameter("weight", std::move(weight));
}

Variable Embedding::forward(const Tensor& indices) { return autograd::embedding(weight_, indices, padding_idx_); }

}  // namespace tandem::nn
