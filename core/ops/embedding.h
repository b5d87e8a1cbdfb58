// Table look-up by row, and the gradient of the table.
#pragma once

#include <cstdint>

#include "tandem/core/tensor.h"

namespace tandem::core {

/// weight [V, D] of any dtype and strides, int64 indices of any shape -> indices.shape + [D], contiguous.
/// Throws where an index is not in [0, V), naming it and its position in the flattened indices.
Tensor embedding(const Tensor& weight, const Tensor& indices);

/// dweight[v] = sum of dy over the positions whose index is v; dy: indices.shape + [D], dweight: [V, D] of dy's dtype
/// and any strides. Overwrites all of dweight, rows without a position become 0; or adds, where `accumulate`. Positions
/// whose index is padding_idx give nothing; -1: there is none. Sums run in order of position in chunks, so they are the
/// same bits for any number of threads.
void embedding_backward(const Tensor& dy, const Tensor& indices, Tensor& dweight, bool accumulate,
                        std::int64_t padding_idx = -1);

namespace kernels {
// indices and output or dy are contiguous; both check the indices.
template <DeviceType>
void embedding(const Tensor& weight, const Tensor& indices, Tensor& output);
/// Adds to dweight; dy's sizes but the last count as one.
template <DeviceType>
void embedding_backward(const Tensor& dy, const Tensor& indices, Tensor& dweight, std::int64_t padding_idx);
}  // namespace kernels

}  // namespace tandem::core
