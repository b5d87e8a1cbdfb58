// From an operator to its kernel: one explicit switch over the devices that this build has.
//
// An operator `foo` checks its arguments and allocates its results in core/ops/foo.cpp, then calls the kernel that its
// header declares once for all devices, and each device's folder defines for it: kernels::foo<DeviceType::cpu> is in
// core/ops/cpu/foo.cpp. To add a device is to add a case here and a folder beside cpu/; an operator without a kernel
// for it is then an undefined symbol, found when the library is linked, not when it runs.
//
// All tensors of a call must be on one device. Host code never touches their memory: Tensor::data() is for the host's
// own, and kernels alone compute elsewhere.
//
// What a library throws inside a kernel becomes an Error here, with the operator and what it was given.
//
// The call is an event of the recorder, with what it costs: the bytes of the kernel's tensors, and what is said of
// FLOP, or both where that is not it (a table of which a few rows are read). Where the recorder is off nothing is
// counted.
#pragma once

#include <exception>
#include <string>
#include <type_traits>
#include <utility>

#include "tandem/core/guarded/call.h"
#include "tandem/core/ops/operands.h"
#include "tandem/core/recorder.h"
#include "tandem/core/tensor.h"

namespace tandem::core {

template <class... Arguments>
Cost cost_of_call(double flops, const Arguments&... arguments) {
  return {.flops = flops, .bytes = (moved_bytes(arguments) + ...)};
}

/// Throws Error for what kernel `op` threw: no memory, or a library's own words. The current exception, if it is an
/// Error already.
[[noreturn]] void fail_in_kernel(const char* op, const std::exception& failure, const std::string& operands);
[[noreturn]] void fail_on_devices(const char* op, const std::string& operands);

template <class... Arguments>
std::string list_operands(bool with_devices, const Arguments&... arguments) {
  std::string operands;
  const auto append = [&]<class T>(const T& argument) {
    if constexpr (IsTensorList<T>) {
      append_list(operands, std::ranges::size(argument));
    } else {
      for_each_tensor(argument, [&](const Tensor& tensor) { append_operand(operands, tensor, with_devices); });
    }
  };
  (append(arguments), ...);
  return operands;
}

/// Calls kernel(device, arguments...), where `device` is a std::integral_constant, and cost_of(arguments...) if that is
/// recorded.
template <class CostOf, class Kernel, class... Arguments>
void dispatch(const char* op, Device device, CostOf&& cost_of, Kernel&& kernel, Arguments&&... arguments) {
  RecordScope scope(op);
  if (scope.is_recording()) scope.add(cost_of(arguments...));
  if (!(is_on(device, arguments) && ...)) fail_on_devices(op, list_operands(true, arguments...));
  try {
    constexpr std::integral_constant<DeviceType, DeviceType::cpu> kOnCpu;
    switch (device.type) {
      case DeviceType::cpu: return kernel(kOnCpu, arguments...);
      case DeviceType::guarded: return guarded::call([&](auto&... lent) { kernel(kOnCpu, lent...); }, arguments...);
      default: fail("{}: this build has no kernels for device {}", op, device.str());
    }
  } catch (const std::exception& failure) {
    fail_in_kernel(op, failure, list_operands(false, arguments...));
  }
}

}  // namespace tandem::core

// `cost` is evaluated only where it is recorded, with the kernel's `arguments`, which are evaluated once.
#define TANDEM_DISPATCH_COST(op, device, cost, kernel, ...)                                                       \
  ::tandem::core::dispatch(                                                                                       \
      op, device, [&](const auto&... arguments) -> ::tandem::core::Cost { return (void(arguments), ..., cost); }, \
      [](auto on, auto&... arguments) { kernels::kernel<decltype(on)::value>(arguments...); }, __VA_ARGS__)

#define TANDEM_DISPATCH_FLOPS(op, device, flops, kernel, ...) \
  TANDEM_DISPATCH_COST(op, device, ::tandem::core::cost_of_call(flops, arguments...), kernel, __VA_ARGS__)

#define TANDEM_DISPATCH(op, device, kernel, ...) TANDEM_DISPATCH_FLOPS(op, device, 0, kernel, __VA_ARGS__)
