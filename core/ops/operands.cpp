#include "tandem/core/ops/operands.h"

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

void append_list(std::string& operands, std::size_t size) {
  if (!operands.empty()) operands += ", ";
  operands += fmt::format("a list of {}", size);
}

}  // namespace tandem::core
