#include "tandem/core/ops/dropout.h"

#include "tandem/core/cpu/strided.h"
#include "tandem/core/ops/cpu/dropout.h"

namespace tandem::core::kernels {
using namespace cpu;
namespace {

template <class T>
T scaled_or_zero(T x, std::uint8_t keep, compute_t<T> scale) {
  return static_cast<T>(kept_or_zero(static_cast<compute_t<T>>(x) * scale, keep));
}

template <class T>
void apply(const T* x, const std::uint8_t* keep, compute_t<T> scale, T* out, std::int64_t n) {
#pragma omp simd  // out may be x itself
  for (std::int64_t i = 0; i < n; ++i) out[i] = scaled_or_zero(x[i], keep[i], scale);
}

}  // namespace

template <>
void dropout<DeviceType::cpu>(const Tensor& x, double p, const PhiloxStream& stream, Tensor& output, Tensor& mask) {
  const DropoutRule rule(p);
  std::uint8_t* keep = mask.mutable_data<std::uint8_t>();
  constexpr std::int64_t kBlock = 16 * kDropoutGroup;  // the mask of a block is still in L1 when it is applied
  const std::int64_t n = x.numel();
  visit_floating("dropout", x.dtype(), [&]<class T>() {
    const T* in = x.data<T>();
    T* out = output.mutable_data<T>();
    const auto scale = static_cast<compute_t<T>>(rule.scale);
    const std::int64_t blocks = (n + kBlock - 1) / kBlock;
    parallel_for(blocks, 8, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first * kBlock; i < std::min(n, last * kBlock); i += kBlock) {
        const std::int64_t count = std::min(kBlock, n - i);
        draw_kept(stream, static_cast<std::uint64_t>(i), count, rule.threshold, keep + i);
        apply(in + i, keep + i, scale, out + i, count);
      }
    });
  });
}

template <>
void dropout_backward<DeviceType::cpu>(const Tensor& dy, const Tensor& mask, double p, Tensor& dx) {
  const auto plan = make_plan<3>(dx.shape(), {&dx.strides(), &mask.strides(), &dy.strides()});
  const std::uint8_t* keep = mask.data<std::uint8_t>();
  visit_floating("dropout_backward", dy.dtype(), [&]<class T>() {
    const T* in = dy.data<T>();
    T* out = dx.mutable_data<T>();
    const auto scale = static_cast<compute_t<T>>(DropoutRule(p).scale);
    for_each_run(plan, [&](const auto& at, std::int64_t n, const auto& step) {
      if (step[0] == 1 && step[1] == 1 && step[2] == 1) return apply(in + at[2], keep + at[1], scale, out + at[0], n);
      for (std::int64_t i = 0; i < n; ++i)
        out[at[0] + i * step[0]] = scaled_or_zero(in[at[2] + i * step[2]], keep[at[1] + i * step[1]], scale);
    });
  });
}

}  // namespace tandem::core::kernels
