// Which types a device's kernels compute with, and the check of it that operators share.
#pragma once

#include <cstdint>

#include "tandem/core/tensor.h"

namespace tandem::core {

/// float16 is storage only on the CPU: its kernels copy and convert it, no more. bool and uint8 are computed with
/// nowhere.
bool is_computable(DType dtype, Device device);

/// Throws Error naming `op` if `x` is undefined, or of no floating type that its device computes with. `number`: which
/// tensor of a list it is; -1: there is no list.
void check_floating(const char* op, const Tensor& x, std::int64_t number = -1);

}  // namespace tandem::core
