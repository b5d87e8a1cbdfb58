// Data that needs no file: each sample is a function of (seed, index), and a model can learn it.
#pragma once

#include <vector>

#include "tandem/data/labelled_dataset.h"

namespace tandem::data {

struct SyntheticOptions {
  /// Number of the first sample: ranges that do not meet are data of one kind with other noise.
  std::int64_t first = 0;
  std::int64_t size = 1024;
  core::Shape sample_shape{3, 224, 224};
  std::int64_t classes = 1000;
  std::uint64_t seed = 0;
};

/// Sample i, counted from `first`, is of class i % classes: the class's mean plus uniform noise of deviation 1. A mean
/// is coarse, so that convolutions find it too: each plane of the last two dimensions is cut into 4 x 4 cells of one
/// value each, normal with deviation 1.
class Synthetic final : public LabelledDataset {
 public:
  /// Throws Error where numbers of samples are not in [0, 2^32), and for no class.
  explicit Synthetic(const SyntheticOptions& options);

  std::int64_t size() const override { return options_.size; }
  core::Shape sample_shape() const override { return options_.sample_shape; }
  std::int64_t classes() const override { return options_.classes; }

 protected:
  void read_into(std::span<const std::int64_t> indices, const EpochContext& context, float* input,
                 std::int64_t* target) const override;

 private:
  void read_sample(std::int64_t index, float* out) const;

  SyntheticOptions options_;
  std::int64_t planes_ = 1, height_ = 1, width_ = 1;
  core::Tensor means_;  // [classes, planes, 4, 4]
};

}  // namespace tandem::data
