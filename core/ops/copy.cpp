#include "tandem/core/ops/copy.h"

#include <utility>

#include "tandem/core/ops/broadcast.h"
#include "tandem/core/ops/dispatch.h"

namespace tandem::core {
namespace {

void copy_between_devices(const Tensor& source, Tensor& destination) {
  for (const Tensor* tensor : {&source, &std::as_const(destination)})
    if (tensor->device() != kCpu && tensor->device() != kGuarded)
      fail("copy: this build cannot copy from {} to {}", source.device().str(), destination.device().str());
  const RecordScope scope("copy");
  guarded::call([](const Tensor& from, Tensor& to) { kernels::copy<DeviceType::cpu>(from, to); }, source, destination);
}

}  // namespace

void copy(const Tensor& source, Tensor& destination) {
  if (source.shape() != destination.shape())
    fail("copy: source {} does not fit destination {}", source.shape().str(), destination.shape().str());
  check_no_repeats("copy", destination);
  if (source.numel() == 0 || source.is_same_view(destination)) return;
  if (may_disturb(destination, source)) return copy(source.clone(), destination);
  if (source.device() != destination.device()) return copy_between_devices(source, destination);
  TANDEM_DISPATCH("copy", destination.device(), copy, source, destination);
}

}  // namespace tandem::core
