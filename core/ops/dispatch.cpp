#include "tandem/core/ops/dispatch.h"

#include <new>

namespace tandem::core {

double moved_bytes(const Tensor& tensor) {
  if (!tensor.defined()) return 0;
  auto bytes = static_cast<double>(item_size(tensor.dtype()));
  for (int d = 0; d < tensor.rank(); ++d)
    if (tensor.strides()[d] != 0 || tensor.shape()[d] == 0) bytes *= static_cast<double>(tensor.shape()[d]);
  return bytes;
}

void append_operand(std::string& operands, const Tensor& tensor, bool with_device) {
  if (!tensor.defined()) return;
  if (!operands.empty()) operands += ", ";
  operands += std::string(name(tensor.dtype())) + " " + tensor.shape().str();
  if (with_device) operands += " on " + tensor.device().str();
}

void fail_in_kernel(const char* op, const std::exception& failure, const std::string& operands) {
  if (dynamic_cast<const Error*>(&failure) != nullptr) throw;
  const bool no_memory = dynamic_cast<const std::bad_alloc*>(&failure) != nullptr;
  fail("{}: the kernel failed for {}: {}", op, operands, no_memory ? "no memory" : failure.what());
}

void fail_on_devices(const char* op, const std::string& operands) {
  fail("{}: all operands must be on one device, got {}", op, operands);
}

}  // namespace tandem::core
