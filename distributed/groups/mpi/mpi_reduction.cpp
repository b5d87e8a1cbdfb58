// The table of types, and the operations that MPI calls.
#include "tandem/distributed/groups/mpi/mpi_reduction.h"

#include <algorithm>
#include <array>

#include "tandem/distributed/groups/reduce_kernels.h"

namespace tandem::distributed {

namespace {

using core::DType;

constexpr std::size_t kDTypes = 8;  // DType's values are 0 to 7

bool is_16_bit_float(DType dtype) { return dtype == DType::bfloat16 || dtype == DType::float16; }

MPI_Datatype make_type(DType dtype) {
  switch (dtype) {
    case DType::float32: return MPI_FLOAT;
    case DType::float64: return MPI_DOUBLE;
    case DType::int64: return MPI_INT64_T;
    case DType::int32: return MPI_INT32_T;
    case DType::uint8:
    case DType::boolean: return MPI_UINT8_T;
    case DType::bfloat16:
    case DType::float16: break;
  }
  MPI_Datatype type = MPI_DATATYPE_NULL;  // one of its own for each, by which reduce() tells them apart
  MPI_Type_contiguous(2, MPI_BYTE, &type);
  MPI_Type_commit(&type);
  return type;
}

const std::array<MPI_Datatype, kDTypes>& types() {
  static const auto table = [] {
    std::array<MPI_Datatype, kDTypes> all{};
    for (std::size_t i = 0; i < kDTypes; ++i) all[i] = make_type(static_cast<DType>(i));
    return all;
  }();
  return table;
}

// MPI_User_function: second = first (op) second.
template <ReduceOp Op>
void reduce(void* first, void* second, int* numel, MPI_Datatype* type) {
  const auto& table = types();
  const auto dtype = static_cast<DType>(std::find(table.begin(), table.end(), *type) - table.begin());
  reduce_pair(Op, dtype, second, first, second, *numel);
}

template <ReduceOp Op>
MPI_Op own_op() {
  static const MPI_Op op = [] {
    const bool commutes = Op == ReduceOp::sum || Op == ReduceOp::product;
    MPI_Op made = MPI_OP_NULL;
    MPI_Op_create(&reduce<Op>, commutes ? 1 : 0, &made);
    return made;
  }();
  return op;
}

}  // namespace

MPI_Datatype mpi_type(DType dtype) { return types()[static_cast<std::size_t>(dtype)]; }

MPI_Op mpi_op(ReduceOp op, DType dtype) {
  switch (op) {
    case ReduceOp::sum: return is_16_bit_float(dtype) ? own_op<ReduceOp::sum>() : MPI_SUM;
    case ReduceOp::product: return is_16_bit_float(dtype) ? own_op<ReduceOp::product>() : MPI_PROD;
    case ReduceOp::min: return own_op<ReduceOp::min>();
    case ReduceOp::max: return own_op<ReduceOp::max>();
  }
  return MPI_OP_NULL;
}

}  // namespace tandem::distributed
