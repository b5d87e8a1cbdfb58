#include "tandem/train/task.h"

#include "tandem/core/ops/reduce.h"

namespace tandem::train {

double count_correct(const core::Tensor& logits, const core::Tensor& target) {
  if (logits.size(0) == 0) return 0;
  const auto chosen = core::argmax(logits, 1).to_vector<std::int64_t>();
  const auto wanted = target.to_vector<std::int64_t>();
  double correct = 0;
  for (std::size_t row = 0; row < wanted.size(); ++row) correct += chosen[row] == wanted[row];
  return correct;
}

}  // namespace tandem::train
