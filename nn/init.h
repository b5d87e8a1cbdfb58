// Initial weights, PyTorch's defaults.
#pragma once

#include "tandem/core/random.h"

namespace tandem::nn {

/// Uniform in +-1/sqrt(fan_in), which is kaiming_uniform with a = sqrt(5): what PyTorch's Linear and Conv2d start from,
/// for weight and bias alike. Source: He et al., "Delving deep into rectifiers", 2015.
core::Tensor uniform_by_fan_in(const core::Shape& shape, std::int64_t fan_in, core::Generator& random);

/// Normal with mean 0.
core::Tensor normal(const core::Shape& shape, double deviation, core::Generator& random);

}  // namespace tandem::nn
