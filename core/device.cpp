#include "tandem/core/device.h"

#include <charconv>

#include "tandem/core/error.h"

namespace tandem::core {
namespace {

constinit Device device_of_new_tensors = kCpu;

}  // namespace

std::string Device::str() const {
  switch (type) {
    case DeviceType::cpu: return "cpu";
    case DeviceType::guarded: return "guarded";
    case DeviceType::cuda: break;
  }
  return "cuda:" + std::to_string(index);
}

Device parse_device(std::string_view name) {
  if (name == "cpu") return kCpu;
  if (name == "guarded") return kGuarded;
  if (name == "cuda") return {.type = DeviceType::cuda};
  constexpr std::string_view kNumbered = "cuda:";
  Device device{.type = DeviceType::cuda};
  const char* const end = name.data() + name.size();
  if (name.starts_with(kNumbered) && name.size() > kNumbered.size()) {
    const auto [stop, error] = std::from_chars(name.data() + kNumbered.size(), end, device.index);
    if (error == std::errc() && stop == end && device.index >= 0) return device;
  }
  fail("device: '{}' is none; must be cpu, cuda or cuda:N", name);
}

Device default_device() { return device_of_new_tensors; }
void set_default_device(Device device) { device_of_new_tensors = device; }

}  // namespace tandem::core
