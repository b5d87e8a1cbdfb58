// Initial weights, PyTorch's defaults.
#pragma once

#include "tandem/core/random.h"
#include "tandem/core/tensor.h"

namespace tandem::nn {

/// Uniform in +-1/sqrt(fan_in), which is kaiming_uniform with a = sqrt(5): what PyTorch's Linear and Conv2d start from,
/// for weight and bias alike. Source: He et al., "Delving deep into rectifiers", 2015.
core::Tensor uniform_by_fan_in(const core::Shape& shape, std::int64_t fan_in, core::Generator& random);

/// Normal with mean 0.
core::Tensor normal(const core::Shape& shape, double deviation, core::Generator& random);

/// Normal with deviation sqrt(2 / fan_out), which is kaiming_normal with mode fan_out: before ReLU, gradients keep
/// their size from layer to layer. What torchvision's networks start their convolutions from. Source: as above.
core::Tensor normal_by_fan_out(const core::Shape& shape, std::int64_t fan_out, core::Generator& random);

}  // namespace tandem::nn
