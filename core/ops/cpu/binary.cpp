#include "tandem/core/ops/binary.h"

#include <concepts>

#include "tandem/core/cpu/strided.h"
#include "tandem/core/ops/broadcast.h"
#include "tandem/core/wrapping.h"

namespace tandem::core::kernels {
using namespace cpu;
namespace {

constexpr auto kAdd = []<class C>(C a, C b) { return wrapping_add(a, b); };
constexpr auto kSub = []<class C>(C a, C b) { return wrapping_sub(a, b); };
constexpr auto kMul = []<class C>(C a, C b) { return wrapping_mul(a, b); };
constexpr auto kDiv = []<class C>(C a, C b) {
  if constexpr (std::integral<C>) {
    // The smallest integer divided by -1 does not fit and would trap.
    return b == -1 ? kSub(C{0}, a) : static_cast<C>(a / b);
  } else {
    return a / b;
  }
};
constexpr auto kMaximum = []<class C>(C a, C b) { return (a > b) | (a != a) ? a : b; };
constexpr auto kMinimum = []<class C>(C a, C b) { return (a < b) | (a != a) ? a : b; };

// One run. The strides 0 and 1 are compile-time constants, so that these loops are vectorised; `ivdep` says that out
// may be a.
template <int StrideA, int StrideB, class T, class Out, class F>
void unit_run(const T* a, const T* b, Out* out, std::int64_t n, F f) {
  using C = compute_t<T>;
  if constexpr (StrideA == 0) {
    const C fixed = static_cast<C>(*a);
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<Out>(f(fixed, static_cast<C>(b[i])));
  } else if constexpr (StrideB == 0) {
    const C fixed = static_cast<C>(*b);
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<Out>(f(static_cast<C>(a[i]), fixed));
  } else {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<Out>(f(static_cast<C>(a[i]), static_cast<C>(b[i])));
  }
}

template <class T, class Out, class F>
void any_run(const T* a, std::int64_t stride_a, const T* b, std::int64_t stride_b, Out* out, std::int64_t stride_out,
             std::int64_t n, F f) {
  using C = compute_t<T>;
  if (stride_out == 1 && stride_a == 1 && stride_b == 1) return unit_run<1, 1>(a, b, out, n, f);
  if (stride_out == 1 && stride_a == 1 && stride_b == 0) return unit_run<1, 0>(a, b, out, n, f);
  if (stride_out == 1 && stride_a == 0 && stride_b == 1) return unit_run<0, 1>(a, b, out, n, f);
  for (std::int64_t i = 0; i < n; ++i)
    out[i * stride_out] = static_cast<Out>(f(static_cast<C>(a[i * stride_a]), static_cast<C>(b[i * stride_b])));
}

// out = f(a, b). Operands of one dense layout are one run, without a plan.
template <class T, class Out, class F>
void zip(const Tensor& a, const Tensor& b, Tensor& out, F f) {
  const T* first = a.data<T>();
  const T* second = b.data<T>();
  Out* to = out.mutable_data<Out>();
  if (a.shape() == b.shape() && a.strides() == b.strides() && a.strides() == out.strides() && out.is_dense()) {
    parallel_for(out.numel(), kGrain, [=](std::int64_t begin, std::int64_t end) {
      unit_run<1, 1>(first + begin, second + begin, to + begin, end - begin, f);
    });
    return;
  }
  const Strides strides_a = broadcast_strides(a, out.shape()), strides_b = broadcast_strides(b, out.shape());
  const auto plan = make_plan<3>(out.shape(), {&out.strides(), &strides_a, &strides_b});
  for_each_run(plan, [=](const auto& offsets, std::int64_t n, const auto& strides) {
    any_run(first + offsets[1], strides[1], second + offsets[2], strides[2], to + offsets[0], strides[0], n, f);
  });
}

template <class F>
void visit_arithmetic(DType dtype, F&& f) {
  switch (dtype) {
    case DType::float32: return f.template operator()<float>();
    case DType::float64: return f.template operator()<double>();
    case DType::bfloat16: return f.template operator()<bfloat16>();
    case DType::int64: return f.template operator()<std::int64_t>();
    case DType::int32: return f.template operator()<std::int32_t>();
    default: fail("binary: no arithmetic on {}", name(dtype));
  }
}

// A zero divisor cannot be reported from inside the parallel loop.
template <class T>
void check_divisor(const Tensor& b) {
  for (const T value : b.to_vector<T>())
    if (value == 0) fail("div: division by zero in {} {}", name(b.dtype()), b.shape().str());
}

}  // namespace

template <>
void binary<DeviceType::cpu>(BinaryOp op, const Tensor& a, const Tensor& b, Tensor& out) {
  visit_arithmetic(a.dtype(), [&]<class T>() {
    switch (op) {
      case BinaryOp::add: return zip<T, T>(a, b, out, kAdd);
      case BinaryOp::sub: return zip<T, T>(a, b, out, kSub);
      case BinaryOp::mul: return zip<T, T>(a, b, out, kMul);
      case BinaryOp::div:
        if constexpr (std::integral<T>) check_divisor<T>(b);
        return zip<T, T>(a, b, out, kDiv);
      case BinaryOp::maximum: return zip<T, T>(a, b, out, kMaximum);
      case BinaryOp::minimum: return zip<T, T>(a, b, out, kMinimum);
    }
  });
}

template <>
void compare<DeviceType::cpu>(CompareOp op, const Tensor& a, const Tensor& b, Tensor& out) {
  visit_all(a.dtype(), [&]<class T>() {
    switch (op) {
      case CompareOp::equal: return zip<T, bool>(a, b, out, [](auto x, auto y) { return x == y; });
      case CompareOp::not_equal: return zip<T, bool>(a, b, out, [](auto x, auto y) { return x != y; });
      case CompareOp::less: return zip<T, bool>(a, b, out, [](auto x, auto y) { return x < y; });
      case CompareOp::less_equal: return zip<T, bool>(a, b, out, [](auto x, auto y) { return x <= y; });
      case CompareOp::greater: return zip<T, bool>(a, b, out, [](auto x, auto y) { return x > y; });
      case CompareOp::greater_equal: return zip<T, bool>(a, b, out, [](auto x, auto y) { return x >= y; });
    }
  });
}

template <>
void accumulate<DeviceType::cpu>(Tensor& a, const Tensor& b) {
  visit_arithmetic(a.dtype(), [&]<class T>() { zip<T, T>(a, b, a, kAdd); });
}

}  // namespace tandem::core::kernels
