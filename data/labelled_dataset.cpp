#include "tandem/data/labelled_dataset.h"

namespace tandem::data {

Batch LabelledDataset::read_batch(std::span<const std::int64_t> indices, const EpochContext& context) const {
  const core::Shape sample = sample_shape();
  core::Shape shape{static_cast<std::int64_t>(indices.size())};
  for (const std::int64_t size : sample) shape.push_back(size);
  Batch batch;
  batch.input = core::Tensor::empty(shape, {.device = core::kCpu});
  batch.target = core::Tensor::empty({shape[0]}, {.dtype = core::DType::int64, .device = core::kCpu});
  if (!indices.empty())
    read_into(indices, context, batch.input.mutable_data<float>(), batch.target.mutable_data<std::int64_t>());
  return batch;
}

}  // namespace tandem::data
