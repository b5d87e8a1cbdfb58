// From an operator to its kernel: one explicit switch over the devices that this build has.
//
// An operator `foo` checks its arguments and allocates its results in core/ops/foo.cpp, then calls the kernel of the
// same name in the device's namespace: cpu::foo, in core/ops/cpu/foo.cpp. To add a device is to add a case here and a
// folder beside cpu/; an operator without a kernel for it is then an undefined symbol, found when the library is
// linked, not when it runs.
#pragma once

#include "tandem/core/recorder.h"
#include "tandem/core/tensor.h"

#define TANDEM_DISPATCH(op, where, kernel, ...)                                                        \
  do {                                                                                                 \
    const ::tandem::core::RecordScope record_scope_of_dispatch(op);                                    \
    switch ((where).type) {                                                                            \
      case ::tandem::core::DeviceType::cpu: cpu::kernel(__VA_ARGS__); break;                           \
      default: ::tandem::core::fail("{}: this build has no kernels for device {}", op, (where).str()); \
    }                                                                                                  \
  } while (false)
