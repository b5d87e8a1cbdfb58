#include "tandem/core/ops/fill.h"

#include "tandem/core/ops/dispatch.h"

namespace tandem::core {

void fill(Tensor& tensor, double value) {
  if (tensor.numel() == 0) return;
  TANDEM_DISPATCH("fill", tensor.device(), fill, tensor, value);
}

}  // namespace tandem::core
