// A table of learned rows, looked up by index: words to vectors.
#pragma once

#include "tandem/nn/module.h"

namespace tandem::nn {

/// weight [rows, features], at first normal(0, 1), as in PyTorch. The row `padding_idx`, where there is one, is zero at
/// first and gets no gradient.
class Embedding final : public Module {
 public:
  /// Throws where padding_idx is neither -1 (none) nor a row.
  Embedding(std::int64_t rows, std::int64_t features, Generator& random, std::int64_t padding_idx = -1);
  /// indices int64 of any shape -> indices.shape + [features]
  Variable forward(const Tensor& indices);
  using Module::forward;  // of a Variable, which throws: indices have no gradient

  const Variable& weight() const { return weight_; }
  std::int64_t padding_idx() const { return padding_idx_; }

 private:
  Variable weight_;
  std::int64_t padding_idx_;
};

}  // namespace tandem::nn
