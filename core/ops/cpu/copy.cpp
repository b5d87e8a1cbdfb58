#include "tandem/core/ops/copy.h"

#include <cstring>

#include "tandem/core/ops/cpu/strided.h"

namespace tandem::core::cpu {
namespace {

template <class To, class From>
To convert(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else {
    return static_cast<To>(static_cast<compute_t<To>>(static_cast<compute_t<From>>(value)));
  }
}

template <class To, class From>
void copy_run(To* to, std::int64_t to_stride, const From* from, std::int64_t from_stride, std::int64_t n) {
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

}  // namespace

void copy(const Tensor& source, Tensor& destination) {
  const auto plan = make_plan<2>(source.shape(), {&destination.strides(), &source.strides()});
  visit_all(destination.dtype(), [&]<class To>() {
    visit_all(source.dtype(), [&]<class From>() {
      To* to = destination.mutable_data<To>();
      const From* from = source.data<From>();
      for_each_run(plan, [&](const auto& offsets, std::int64_t n, const auto& strides) {
        copy_run(to + offsets[0], strides[0], from + offsets[1], strides[1], n);
      });
    });
  });
}

}  // namespace tandem::core::cpu
