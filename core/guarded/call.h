// Calls a kernel of the CPU with tensors of the guarded device: for the time of the call it is lent tensors that look
// like the CPU's, over the same bytes at the address that may be touched.
#pragma once

#include <functional>
#include <ranges>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tandem/core/ops/operands.h"
#include "tandem/core/tensor.h"

namespace tandem::core::guarded {

/// `tensor` as kernels see it. Tensors of the CPU are what they are.
Tensor lent(const Tensor& tensor);
/// After the kernel: what it changed counts as changed.
void note_changes(const Tensor& tensor);

/// A kernel's argument with its tensors lent: a copy if it holds any, else the argument itself.
template <class T>
auto lend(T& argument) {
  if constexpr (IsTensorList<T>) {
    std::vector<std::ranges::range_value_t<T>> copy(argument.begin(), argument.end());
    for_each_tensor(copy, [](Tensor& tensor) { tensor = lent(tensor); });
    return copy;
  } else if constexpr (HoldsTensors<T>) {
    std::remove_const_t<T> copy = argument;
    for_each_tensor(copy, [](Tensor& tensor) { tensor = lent(tensor); });
    return copy;
  } else {
    return std::ref(argument);
  }
}

/// What the kernel has made of a lent argument: changes of its tensors, and what it wrote beside them into a struct.
template <class T, class Lent>
void take_back(T& argument, Lent& copy) {
  if constexpr (HoldsTensors<T>) {
    for_each_tensor(argument, [](const Tensor& tensor) { note_changes(tensor); });
    if constexpr (HasTensorMembers<T> && !std::is_const_v<T>) {
      std::apply([&](auto... member) { ((copy.*member = argument.*member), ...); }, T::kTensors);
      argument = std::move(copy);
    }
  }
}

template <class T>
std::unwrap_reference_t<T>& unwrapped(T& copy) {
  return copy;
}

template <class Kernel, class... Arguments>
void call(Kernel&& kernel, Arguments&... arguments) {
  std::tuple copies(lend(arguments)...);
  std::apply([&](auto&... copy) { kernel(unwrapped(copy)...); }, copies);
  std::apply([&](auto&... copy) { (take_back(arguments, copy), ...); }, copies);
}

}  // namespace tandem::core::guarded
