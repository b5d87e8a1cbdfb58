#include "tandem/core/guarded/call.h"

namespace tandem::core::guarded {

Tensor lent(const Tensor& tensor) {
  if (!tensor.defined() || tensor.device() != kGuarded) return tensor;
  const StoragePtr& memory = tensor.storage()->as_kernels_see();
  memory->catch_up_with(*tensor.storage());
  return Tensor(memory, tensor.shape(), tensor.strides(), tensor.offset(), tensor.dtype());
}

void note_changes(const Tensor& tensor) {
  if (tensor.defined() && tensor.device() == kGuarded)
    tensor.storage()->catch_up_with(*tensor.storage()->as_kernels_see());
}

}  // namespace tandem::core::guarded
