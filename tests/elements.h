// What tests do with a tensor's elements, on whatever device it lies.
#pragma once

#include <cstring>
#include <vector>

#include "tandem/core/tensor.h"

namespace tandem::testing {

/// f(elements): a pointer to the host's copy of them, in order of memory, which is then written back. `tensor` is
/// dense.
template <class T, class F>
void change(core::Tensor& tensor, F&& f) {
  core::Tensor host = tensor.to(core::kCpu);
  f(host.mutable_data<T>());
  tensor.copy_from(host);
}

/// Element i, in order of memory.
template <class T>
void set_element(core::Tensor& tensor, std::int64_t i, T value) {
  change<T>(tensor, [=](T* elements) { elements[i] = value; });
}
template <class T>
void add_to_element(core::Tensor& tensor, std::int64_t i, T difference) {
  change<T>(tensor, [=](T* elements) { elements[i] += difference; });
}

/// The elements of a dense tensor in order of memory.
template <class T>
std::vector<T> elements_of(const core::Tensor& tensor) {
  const core::Tensor host = tensor.to(core::kCpu);
  return std::vector<T>(host.data<T>(), host.data<T>() + host.numel());
}

/// Where it begins, for comparison.
inline const void* address_of(const core::Tensor& tensor) {
  return static_cast<const char*>(tensor.storage()->data()) +
         tensor.offset() * static_cast<std::int64_t>(core::item_size(tensor.dtype()));
}

/// Of two contiguous tensors of one size.
inline bool has_bytes_of(const core::Tensor& a, const core::Tensor& b) {
  const core::Tensor x = a.to(core::kCpu), y = b.to(core::kCpu);
  return x.bytes() == y.bytes() && (x.bytes() == 0 || std::memcmp(x.raw_data(), y.raw_data(), x.bytes()) == 0);
}

}  // namespace tandem::testing

// Folders have helpers of their own in namespaces of that name, which hide this one.
namespace tandem::core::testing {
using namespace tandem::testing;
}
namespace tandem::autograd::testing {
using namespace tandem::testing;
}
