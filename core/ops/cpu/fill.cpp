#include "tandem/core/ops/fill.h"

#include "tandem/core/cpu/strided.h"

namespace tandem::core::kernels {
using namespace cpu;

template <>
void fill<DeviceType::cpu>(Tensor& tensor, double value) {
  const auto plan = make_plan<1>(tensor.shape(), {&tensor.strides()});
  visit_all(tensor.dtype(), [&]<class T>() {
    T* data = tensor.mutable_data<T>();
    const T element = static_cast<T>(static_cast<compute_t<T>>(value));
    for_each_run(plan, [&](const auto& offsets, std::int64_t n, const auto& strides) {
      T* run = data + offsets[0];
      if (strides[0] == 1) {
        std::fill_n(run, n, element);
      } else {
        for (std::int64_t i = 0; i < n; ++i) run[i * strides[0]] = element;
      }
    });
  });
}

}  // namespace tandem::core::kernels
