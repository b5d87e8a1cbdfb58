// A tensor kept for backward, with the promise that it still holds what forward saw.
#pragma once

#include <utility>

#include "tandem/core/tensor.h"

namespace tandem::autograd {

/// Captured by gradient rules: `[x = SavedTensor(x.data())](...) { ... x.get() ... }`.
class SavedTensor {
 public:
  SavedTensor() = default;
  explicit SavedTensor(core::Tensor tensor) : tensor_(std::move(tensor)), version_(tensor_.version()) {}

  /// Throws where the tensor's memory was written to since it was saved; the engine adds the operator's name.
  const core::Tensor& get() const {
    if (tensor_.version() != version_)
      core::fail("a tensor of shape {} that was saved for backward has been changed in place since ({} writes)",
                 tensor_.shape().str(), tensor_.version() - version_);
    return tensor_;
  }

 private:
  core::Tensor tensor_;
  std::uint64_t version_ = 0;
};

}  // namespace tandem::autograd
