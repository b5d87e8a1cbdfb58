// A table of learned rows, looked up by index: words to vectors.
#pragma once

#include "tandem/nn/module.h"

namespace tandem::nn {

struct EmbeddingOptions {
  std::int64_t padding_idx = -1;  ///< a row that is zero at first and gets no gradient from look-ups; -1: there is none
  double init_deviation = 1;      ///< the others are normal with this deviation at first, by default as in PyTorch
};

/// weight [rows, features].
class Embedding final : public Module {
 public:
  /// Throws where padding_idx is neither -1 (none) nor a row.
  Embedding(std::int64_t rows, std::int64_t features, Generator& random, const EmbeddingOptions& options = {});
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
