// Samples of one shape, each with a class: images.
#pragma once

#include "tandem/data/dataset.h"

namespace tandem::data {

class LabelledDataset : public Dataset {
 public:
  /// Shape of one input, without N.
  virtual core::Shape sample_shape() const = 0;
  /// Targets are below this.
  virtual std::int64_t classes() const = 0;

 protected:
  Batch read_batch(std::span<const std::int64_t> indices, const EpochContext& context) const final;
  /// As read_batch(), into memory of the right size: floats of N samples, N targets; N is not 0.
  virtual void read_into(std::span<const std::int64_t> indices, const EpochContext& context, float* input,
                         std::int64_t* target) const = 0;
};

}  // namespace tandem::data
