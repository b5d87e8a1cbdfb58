#include "tandem/core/ops/dispatch.h"

#include <new>

namespace tandem::core {

void fail_in_kernel(const char* op, const std::exception& failure, const std::string& operands) {
  if (dynamic_cast<const Error*>(&failure) != nullptr) throw;
  const bool no_memory = dynamic_cast<const std::bad_alloc*>(&failure) != nullptr;
  fail("{}: the kernel failed for {}: {}", op, operands, no_memory ? "no memory" : failure.what());
}

void fail_on_devices(const char* op, const std::string& operands) {
  fail("{}: all operands must be on one device, got {}", op, operands);
}

}  // namespace tandem::core
