// Pooling as modules: windows over [N, C, H, W].
#pragma once

#include <array>

#include "tandem/nn/module.h"

namespace tandem::nn {

using core::Pool2dOptions;

class MaxPool2d final : public Module {
 public:
  explicit MaxPool2d(const Pool2dOptions& options) : options_(options) {}
  Variable forward(const Variable& x) override { return autograd::max_pool2d(x, options_); }

 private:
  Pool2dOptions options_;
};

class AvgPool2d final : public Module {
 public:
  explicit AvgPool2d(const Pool2dOptions& options, bool count_include_pad = true)
      : options_(options), count_include_pad_(count_include_pad) {}
  Variable forward(const Variable& x) override { return autograd::avg_pool2d(x, options_, count_include_pad_); }

 private:
  Pool2dOptions options_;
  bool count_include_pad_;
};

/// Output of a given size, {1, 1} for the mean of each channel.
class AdaptiveAvgPool2d final : public Module {
 public:
  explicit AdaptiveAvgPool2d(std::array<std::int64_t, 2> size) : size_(size) {}
  Variable forward(const Variable& x) override { return autograd::adaptive_avg_pool2d(x, size_); }

 private:
  std::array<std::int64_t, 2> size_;
};

class AdaptiveMaxPool2d final : public Module {
 public:
  explicit AdaptiveMaxPool2d(std::array<std::int64_t, 2> size) : size_(size) {}
  Variable forward(const Variable& x) override { return autograd::adaptive_max_pool2d(x, size_); }

 private:
  std::array<std::int64_t, 2> size_;
};

}  // namespace tandem::nn
