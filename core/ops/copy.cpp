#include "tandem/core/ops/copy.h"

#include "tandem/core/ops/dispatch.h"

namespace tandem::core {

void copy(const Tensor& source, Tensor& destination) {
  if (source.shape() != destination.shape())
    fail("copy: source {} does not fit destination {}", source.shape().str(), destination.shape().str());
  if (source.numel() == 0) return;
  TANDEM_DISPATCH("copy", destination.device(), copy, source, destination);
}

}  // namespace tandem::core
