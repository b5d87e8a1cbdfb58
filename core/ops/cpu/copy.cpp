#include "tandem/core/ops/copy.h"

#include <cstddef>
#include <cstring>

#include "tandem/core/cpu/strided.h"

namespace tandem::core::kernels {
using namespace cpu;
namespace {

template <class To, class From>
To convert(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else {
    return static_cast<To>(static_cast<compute_t<To>>(static_cast<compute_t<From>>(value)));
  }
}

// n elements, each `stride` elements after the one before; the pointers are to the first.
template <class To, class From>
void copy_run(void* to_void, std::int64_t to_stride, const void* from_void, std::int64_t from_stride, std::int64_t n) {
  To* to = static_cast<To*>(to_void);
  const From* from = static_cast<const From*>(from_void);
  if (to_stride == 1 && from_stride == 1) {
    if constexpr (std::is_same_v<To, From>) {
      std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(To));
    } else {
      for (std::int64_t i = 0; i < n; ++i) to[i] = convert<To>(from[i]);
    }
  } else {
    for (std::int64_t i = 0; i < n; ++i) to[i * to_stride] = convert<To>(from[i * from_stride]);
  }
}

using CopyRun = decltype(&copy_run<float, float>);

// A pointer, so that the walk below is compiled once and not for each of the 64 pairs of types.
CopyRun copy_run_of(DType to, DType from) {
  return visit_all(
      to, [from]<class To>() { return visit_all(from, []<class From>() -> CopyRun { return &copy_run<To, From>; }); });
}

}  // namespace

template <>
void copy<DeviceType::cpu>(const Tensor& source, Tensor& destination) {
  const auto plan = make_plan<2>(source.shape(), {&destination.strides(), &source.strides()});
  const CopyRun run = copy_run_of(destination.dtype(), source.dtype());
  auto* to = static_cast<std::byte*>(destination.mutable_raw_data());
  const auto* from = static_cast<const std::byte*>(source.raw_data());
  const auto to_bytes = static_cast<std::int64_t>(item_size(destination.dtype()));
  const auto from_bytes = static_cast<std::int64_t>(item_size(source.dtype()));
  for_each_run(plan, [&](const auto& offsets, std::int64_t n, const auto& strides) {
    run(to + offsets[0] * to_bytes, strides[0], from + offsets[1] * from_bytes, strides[1], n);
  });
}

}  // namespace tandem::core::kernels
