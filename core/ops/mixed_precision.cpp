#include "tandem/core/ops/mixed_precision.h"

namespace tandem::core {

void check_parameter_dtype(const char* op, const char* what, const Tensor& parameter, const Tensor& activations) {
  const DType dtype = activations.dtype();
  if (parameter.dtype() == dtype || (dtype == DType::bfloat16 && parameter.dtype() == DType::float32)) return;
  fail("{}: {} is {}, activations are {}: needed is {}", op, what, name(parameter.dtype()), name(dtype),
       dtype == DType::bfloat16 ? "bfloat16 or float32" : name(dtype));
}

}  // namespace tandem::core
