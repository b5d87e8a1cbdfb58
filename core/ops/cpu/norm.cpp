#include "tandem/core/ops/norm.h"

#include "tandem/core/cpu/block_sums.h"
#include "tandem/core/ops/cpu/segments.h"
#include "tandem/core/ops/unary.h"

namespace tandem::core::kernels {
using namespace cpu;
namespace {

struct Flat {
  const Tensor* tensor;
  std::int64_t count;
};

struct FlatInPlace {
  void* data;
  DType dtype;
  std::int64_t count;
};

}  // namespace

template <>
void sum_of_squares<DeviceType::cpu>(std::span<const Tensor> tensors, Tensor& sum) {
  std::vector<Flat> flat;
  flat.reserve(tensors.size());
  for (const Tensor& x : tensors) flat.push_back({&x, x.numel()});
  double total = 0;
  for (const auto& [of_tensor] : sum_pieces<1>(flat, [](const Flat&x, std::int64_t begin, std::int64_t end) {
         return visit_floating("sum_of_squares", x.tensor->dtype(), [&]<class T>() {
           return std::array{cpu::sum_of_squares(x.tensor->data<T>() + begin, end - begin)};
         });
       }))
    total += of_tensor;
  *sum.mutable_data<double>() = total;
}

template <>
void scale<DeviceType::cpu>(std::span<Tensor> tensors, const Tensor& factor) {
  const double by = *factor.data<double>();
  if (by == 1) return;
  std::vector<FlatInPlace> flat;
  flat.reserve(tensors.size());
  for (Tensor& x : tensors) {
    if (x.is_dense()) {
      flat.push_back({x.mutable_raw_data(), x.dtype(), x.numel()});
    } else {
      scalar<DeviceType::cpu>(ScalarOp::mul, x, by, x);
    }
  }
  for_each_piece(flat, [by](const FlatInPlace& x, std::int64_t begin, std::int64_t end) {
    visit_floating("scale", x.dtype, [&]<class T>() {
      using C = compute_t<T>;
      const C s = static_cast<C>(by);
      T* const data = static_cast<T*>(x.data);
      for (std::int64_t i = begin; i < end; ++i) data[i] = static_cast<T>(static_cast<C>(data[i]) * s);
    });
  });
}

}  // namespace tandem::core::kernels
