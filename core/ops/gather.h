// Picking elements along one dimension by index, and its adjoint.
#pragma once

#include "tandem/core/tensor.h"

namespace tandem::core {

/// out[i][j][k] = x[index[i][j][k]][j][k] for dim = 0, and likewise for the others: torch.gather. Any dtype of x; index
/// is int64, of the rank of x, and in dimensions other than `dim` at most as large. The result is contiguous, of
/// index's shape. Throws where shapes do not fit or an index is not in [0, size of dim), naming it and its place.
Tensor gather(const Tensor& x, int dim, const Tensor& index);

/// destination[index[i][j][k]][j][k] += source[i][j][k] for dim = 0, and likewise for the others:
/// torch.Tensor.scatter_add_, the gradient of gather. float32, float64 and bfloat16 (which is summed in float32); any
/// strides, but elements of destination must not overlap. Sums run in order of index along `dim`, so they are the same
/// bits for any number of threads.
void scatter_add(Tensor& destination, int dim, const Tensor& index, const Tensor& source);

namespace kernels {
/// Checks all of index.
template <DeviceType>
void gather(const Tensor& x, int dim, const Tensor& index, Tensor& output);
template <DeviceType>
void scatter_add(Tensor& destination, int dim, const Tensor& index, const Tensor& source);
}  // namespace kernels

}  // namespace tandem::core
