// What a kernel is called with: how the dispatch finds the tensors among its arguments.
//
// An argument is a tensor, a struct with tensors, a list of either, or none of these (options, numbers). A struct says
// which of its members are tensors:
//
//   static constexpr std::tuple kTensors{&BatchNormOperands::x, &BatchNormOperands::mean};
//
// An array of tensors is one member.
#pragma once

#include <concepts>
#include <ranges>
#include <string>
#include <tuple>
#include <type_traits>

#include "tandem/core/tensor.h"

namespace tandem::core {

template <class T>
concept HasTensorMembers = requires {
  std::remove_cvref_t<T>::kTensors;
};
template <class T>
concept IsTensor = std::same_as<std::remove_cvref_t<T>, Tensor>;
template <class T>
concept IsTensorList = std::ranges::range<T> &&
    (IsTensor<std::ranges::range_value_t<T>> || HasTensorMembers<std::ranges::range_value_t<T>>);
template <class T>
concept HoldsTensors = IsTensor<T> || HasTensorMembers<T> || IsTensorList<T>;

/// Calls f for each tensor that `argument` holds, undefined ones too.
template <class T, class F>
void for_each_tensor(T& argument, F&& f) {
  if constexpr (IsTensor<T>) {
    f(argument);
  } else if constexpr (HasTensorMembers<T>) {
    std::apply([&](auto... member) { (for_each_tensor(argument.*member, f), ...); }, std::remove_cvref_t<T>::kTensors);
  } else if constexpr (IsTensorList<T>) {
    for (auto& element : argument) for_each_tensor(element, f);
  }
}

/// Bytes that a kernel's argument has in memory, elements that are repeated with stride 0 once; 0 for what is no
/// tensor. A struct of which a part does not count has an overload of its own.
double moved_bytes(const Tensor& tensor);
template <class T>
double moved_bytes(const T& argument) {
  double bytes = 0;
  for_each_tensor(argument, [&](const Tensor& tensor) { bytes += moved_bytes(tensor); });
  return bytes;
}

/// Whether all tensors of an argument are on `device`.
template <class T>
bool is_on(Device device, const T& argument) {
  bool all = true;
  for_each_tensor(argument,
                  [&](const Tensor& tensor) { all = all && (!tensor.defined() || tensor.device() == device); });
  return all;
}

/// "float32 [2, 3]", with a comma in front if it is not the first, and with its device if that is asked for.
void append_operand(std::string& operands, const Tensor& tensor, bool with_device);
/// "a list of 3".
void append_list(std::string& operands, std::size_t size);

}  // namespace tandem::core
