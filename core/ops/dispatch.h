// From an operator to its kernel: one explicit switch over the devices that this build has.
//
// An operator `foo` checks its arguments and allocates its results in core/ops/foo.cpp, then calls the kernel of the
// same name in the device's namespace: cpu::foo, in core/ops/cpu/foo.cpp. To add a device is to add a case here and a
// folder beside cpu/; an operator without a kernel for it is then an undefined symbol, found when the library is
// linked, not when it runs.
//
// What a library throws inside a kernel becomes an Error here, with the operator and what it was given.
//
// The call is an event of the recorder, with what it costs: the bytes of the kernel's tensors, and what is said of
// FLOP, or both where that is not it (a table of which a few rows are read). Where the recorder is off nothing is
// counted.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include "tandem/core/recorder.h"
#include "tandem/core/tensor.h"

namespace tandem::core {

/// Bytes that a kernel's argument has in memory, elements that are repeated with stride 0 once. 0 for all but tensors;
/// where kernels take tensors in a struct, the operator has an overload for it.
template <class T>
double moved_bytes(const T& /*no tensor*/) {
  return 0;
}
inline double moved_bytes(const Tensor& tensor) {
  if (!tensor.defined()) return 0;
  auto bytes = static_cast<double>(item_size(tensor.dtype()));
  for (int d = 0; d < tensor.rank(); ++d)
    if (tensor.strides()[d] != 0 || tensor.shape()[d] == 0) bytes *= static_cast<double>(tensor.shape()[d]);
  return bytes;
}

template <class... Arguments>
Cost cost_of_call(double flops, const Arguments&... arguments) {
  return {.flops = flops, .bytes = (moved_bytes(arguments) + ...)};
}

/// "float32 [2, 3]", with a comma in front if it is not the first; nothing for what is no tensor.
template <class T>
void append_operand(std::string& /*operands*/, const T& /*no tensor*/) {}
void append_operand(std::string& operands, const Tensor& tensor);

/// Throws Error for what kernel `op` threw: no memory, or a library's own words. The current exception, if it is an
/// Error already.
[[noreturn]] void fail_in_kernel(const char* op, const std::exception& failure, const std::string& operands);

}  // namespace tandem::core

// `cost` is evaluated only where it is recorded; the kernel's arguments once, as parts of the event.
#define TANDEM_DISPATCH_COST(op, where, cost, kernel, ...)                                                             \
  do {                                                                                                                 \
    ::tandem::core::RecordScope scope_of_dispatch(op);                                                                 \
    [&](auto&&... arguments) {                                                                                         \
      if (scope_of_dispatch.is_recording()) scope_of_dispatch.add(cost);                                               \
      try {                                                                                                            \
        switch ((where).type) {                                                                                        \
          case ::tandem::core::DeviceType::cpu: cpu::kernel(::std::forward<decltype(arguments)>(arguments)...); break; \
          default: ::tandem::core::fail("{}: this build has no kernels for device {}", op, (where).str());             \
        }                                                                                                              \
      } catch (const ::std::exception& failure) {                                                                      \
        ::std::string operands;                                                                                        \
        (::tandem::core::append_operand(operands, arguments), ...);                                                    \
        ::tandem::core::fail_in_kernel(op, failure, operands);                                                         \
      }                                                                                                                \
    }(__VA_ARGS__);                                                                                                    \
  } while (false)

#define TANDEM_DISPATCH_FLOPS(op, where, flops, kernel, ...) \
  TANDEM_DISPATCH_COST(op, where, ::tandem::core::cost_of_call(flops, arguments...), kernel, __VA_ARGS__)

#define TANDEM_DISPATCH(op, where, kernel, ...) TANDEM_DISPATCH_FLOPS(op, where, 0, kernel, __VA_ARGS__)
