#include "tandem/data/dataset.h"

#include <vector>

namespace tandem::data {
namespace {

void find_predictions(Batch& batch) {
  const std::vector<std::int64_t> targets = batch.target.to_vector<std::int64_t>();
  std::vector<std::int64_t> positions, predicted;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] == kNotPredicted) continue;
    positions.push_back(static_cast<std::int64_t>(i));
    predicted.push_back(targets[i]);
  }
  batch.predicted_positions = core::Tensor::from(positions, batch.target.device());
  batch.predicted_targets = core::Tensor::from(predicted, batch.target.device());
}

}  // namespace

Batch Batch::to(core::Device device) const {
  Batch there = *this;
  for (core::Tensor* tensor : {&there.input, &there.target, &there.attention_mask, &there.token_type_ids,
                               &there.next_sentence, &there.predicted_positions, &there.predicted_targets})
    if (tensor->defined()) *tensor = tensor->to(device);
  return there;
}

Batch Dataset::read(std::span<const std::int64_t> indices, const EpochContext& context) const {
  for (const std::int64_t index : indices)
    if (index < 0 || index >= size()) core::fail("dataset: sample {} was asked for, there are {}", index, size());
  Batch batch = read_batch(indices, context);
  if (batch.target.defined() && batch.target.rank() == 2) find_predictions(batch);
  return batch;
}

}  // namespace tandem::data
