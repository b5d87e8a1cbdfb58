#include "tandem/core/ops/dispatch.h"

#include <new>

namespace tandem::core {

void append_operand(std::string& operands, const Tensor& tensor) {
  if (!tensor.defined()) return;
  if (!operands.empty()) operands += ", ";
  operands += std::string(name(tensor.dtype())) + " " + tensor.shape().str();
}

void fail_in_kernel(const char* op, const std::exception& failure, const std::string& operands) {
  if (dynamic_cast<const Error*>(&failure) != nullptr) throw;
  const bool no_memory = dynamic_cast<const std::bad_alloc*>(&failure) != nullptr;
  fail("{}: the kernel failed for {}: {}", op, operands, no_memory ? "no memory" : failure.what());
}

}  // namespace tandem::core
