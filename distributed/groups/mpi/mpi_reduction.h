// MPI's names for our dtypes and operations. To be called under MpiProcess's lock.
//
// Sums and products of the types that MPI knows are MPI's own. Minimum and maximum are ours, since MPI's forget NaNs,
// and so is all arithmetic of the 16-bit floats. Minimum and maximum are said not to commute: which zero they give, -0
// or 0, depends on the order.
#pragma once

#include <mpi.h>

#include "tandem/core/dtype.h"
#include "tandem/distributed/process_group.h"

namespace tandem::distributed {

MPI_Datatype mpi_type(core::DType dtype);
/// For elements of mpi_type(dtype).
MPI_Op mpi_op(ReduceOp op, core::DType dtype);

}  // namespace tandem::distributed
