#include "tandem/data/dataset.h"

namespace tandem::data {

Batch Dataset::read(std::span<const std::int64_t> indices, const EpochContext& context) const {
  for (const std::int64_t index : indices)
    if (index < 0 || index >= size()) core::fail("dataset: sample {} was asked for, there are {}", index, size());
  return read_batch(indices, context);
}

}  // namespace tandem::data
