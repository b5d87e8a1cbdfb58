#include "tandem/core/ops/where.h"

#include <bit>
#include <type_traits>

#include "tandem/core/cpu/strided.h"
#include "tandem/core/ops/broadcast.h"

namespace tandem::core::kernels {
using namespace cpu;
namespace {

// The unsigned integer of T's size.
template <class T>
using bits_of =
    std::conditional_t<sizeof(T) == 1, std::uint8_t,
                       std::conditional_t<sizeof(T) == 2, std::uint16_t,
                                          std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>>;

// Chosen with a mask of bits, which the compiler vectorises for every type where it leaves `?:` alone.
template <class T>
void where_run(const bool* condition, std::int64_t stride_c, const T* a, std::int64_t stride_a, const T* b,
               std::int64_t stride_b, T* out, std::int64_t stride_out, std::int64_t n) {
  using Bits = bits_of<T>;
  const auto loop = [=](auto step_c, auto step_a, auto step_b, auto step_out) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) {
      const auto if_true = std::bit_cast<Bits>(a[i * step_a]), if_false = std::bit_cast<Bits>(b[i * step_b]);
      const auto mask = static_cast<Bits>(-static_cast<int>(condition[i * step_c]));
      out[i * step_out] = std::bit_cast<T>(static_cast<Bits>((if_true & mask) | (if_false & ~mask)));
    }
  };
  constexpr std::integral_constant<std::int64_t, 0> kSame;
  constexpr std::integral_constant<std::int64_t, 1> kNext;
  const bool unit = stride_c == 1 && stride_out == 1;
  if (unit && stride_a == 1 && stride_b == 1) return loop(kNext, kNext, kNext, kNext);
  if (unit && stride_a == 1 && stride_b == 0) return loop(kNext, kNext, kSame, kNext);
  if (unit && stride_a == 0 && stride_b == 1) return loop(kNext, kSame, kNext, kNext);
  if (unit && stride_a == 0 && stride_b == 0) return loop(kNext, kSame, kSame, kNext);
  loop(stride_c, stride_a, stride_b, stride_out);
}

}  // namespace

template <>
void where<DeviceType::cpu>(const Tensor& condition, const Tensor& a, const Tensor& b, Tensor& out) {
  const Shape& shape = out.shape();
  const Strides strides_c = broadcast_strides(condition, shape), strides_a = broadcast_strides(a, shape),
                strides_b = broadcast_strides(b, shape);
  const auto plan = make_plan<4>(shape, {&out.strides(), &strides_a, &strides_b, &strides_c});
  const bool* choice = condition.data<bool>();
  visit_all(out.dtype(), [&]<class T>() {
    const T* first = a.data<T>();
    const T* second = b.data<T>();
    T* to = out.mutable_data<T>();
    for_each_run(plan, [&](const auto& offsets, std::int64_t n, const auto& strides) {
      where_run(choice + offsets[3], strides[3], first + offsets[1], strides[1], second + offsets[2], strides[2],
                to + offsets[0], strides[0], n);
    });
  });
}

}  // namespace tandem::core::kernels
