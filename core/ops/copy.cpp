#include "tandem/core/ops/copy.h"

#include "tandem/core/ops/broadcast.h"
#include "tandem/core/ops/dispatch.h"

namespace tandem::core {

void copy(const Tensor& source, Tensor& destination) {
  if (source.shape() != destination.shape())
    fail("copy: source {} does not fit destination {}", source.shape().str(), destination.shape().str());
  check_no_repeats("copy", destination);
  if (source.numel() == 0 || source.is_same_view(destination)) return;
  if (may_disturb(destination, source)) return copy(source.clone(), destination);
  TANDEM_DISPATCH("copy", destination.device(), copy, source, destination);
}

}  // namespace tandem::core
