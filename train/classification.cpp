#include "tandem/train/classification.h"

#include "tandem/nn/loss.h"

namespace tandem::train {

const std::vector<std::string>& Classification::terms() const {
  static const std::vector<std::string> names{"loss"};
  return names;
}

std::vector<nn::Variable> Classification::loss_sums(const data::Batch& batch) {
  nn::CrossEntropyOptions options;
  options.label_smoothing = label_smoothing_;
  options.reduction = nn::Reduction::sum;
  return {nn::cross_entropy(forward_(batch), batch.target, options)};
}

BatchEvaluation Classification::evaluate(const data::Batch& batch, bool with_outputs) {
  const nn::Variable logits = forward_(batch);
  nn::CrossEntropyOptions options;
  options.reduction = nn::Reduction::sum;
  BatchEvaluation result{.sums = {nn::cross_entropy(logits, batch.target, options).data().item()},
                         .items = items(batch),
                         .logits = logits.data(),
                         .correct = count_correct(logits.data(), batch.target),
                         .outputs = {}};
  if (with_outputs) result.outputs.emplace_back("output", logits.data());
  return result;
}

}  // namespace tandem::train
