// The arithmetic of collectives, on plain memory: one thread, any number of elements, vectorised by the compiler.
//
// Operands have an order, since minimum and maximum of -0 and 0, and sums of NaNs, depend on it: ranks that compute the
// same thing twice keep to one order and so get the same bits. The 16-bit types compute in float and round once an
// operation. Integers wrap. Minimum and maximum of NaN and anything are NaN.
#pragma once

#include <cstdint>

#include "tandem/core/dtype.h"
#include "tandem/distributed/process_group.h"

namespace tandem::distributed {

/// own = own * scale, rounded to dtype; nothing where scale is 1. Floating dtypes only.
void scale_in_place(core::DType dtype, void* own, double scale, std::int64_t numel);

/// own = received (op) own * scale, in this order. The product is rounded to dtype before it is used, as
/// scale_in_place() would.
void reduce_into_own(ReduceOp op, core::DType dtype, void* own, const void* received, double scale, std::int64_t numel);

/// out = left (op) right; `out` may be one of them.
void reduce_pair(ReduceOp op, core::DType dtype, void* out, const void* left, const void* right, std::int64_t numel);

/// "sum".
const char* name(ReduceOp op);

}  // namespace tandem::distributed
