// A data set from a safetensors file with `input` and `target`: what checks against other frameworks use.
#pragma once

#include <filesystem>

#include "tandem/data/labelled_dataset.h"

namespace tandem::data {

class TensorsDataset final : public LabelledDataset {
 public:
  /// `input` float32 [N, ...], `target` int64 [N], not negative; other tensors of the file are left alone. Samples are
  /// numbered in the file's order. Throws Error naming the file where one is missing, has another dtype, or the two do
  /// not fit.
  explicit TensorsDataset(const std::filesystem::path& path);

  std::int64_t size() const override { return target_.size(0); }
  core::Shape sample_shape() const override;
  /// One more than the largest target, at least 1.
  std::int64_t classes() const override { return classes_; }

 protected:
  void read_into(std::span<const std::int64_t> indices, const EpochContext& context, float* input,
                 std::int64_t* target) const override;

 private:
  core::Tensor input_;
  core::Tensor target_;
  std::int64_t classes_ = 1;
};

}  // namespace tandem::data
