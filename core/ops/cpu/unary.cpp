#include "tandem/core/ops/unary.h"

// GCC 12 warns of its own AVX-512 intrinsics (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

#include <cmath>
#include <experimental/simd>

#include "tandem/core/cpu/strided.h"
#include "tandem/core/cpu/vector_math.h"

namespace tandem::core::kernels {
using namespace cpu;
namespace {

// y[i] = f(x[i]) and dx[i] = f(dy[i], x[i]). `ivdep` tells the compiler that outputs which are inputs too (in place) do
// not hinder it; tensors that overlap in another way never come here. Not inlined, because the compiler then vectorises
// all of them.
template <class T, class F>
[[gnu::noinline]] void map_run(const T* x, std::int64_t x_stride, T* y, std::int64_t y_stride, std::int64_t n, F f) {
  using C = compute_t<T>;
  if (x_stride == 1 && y_stride == 1) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(f(static_cast<C>(x[i])));
  } else {
    for (std::int64_t i = 0; i < n; ++i) y[i * y_stride] = static_cast<T>(f(static_cast<C>(x[i * x_stride])));
  }
}

template <class T, class F>
[[gnu::noinline]] void map_run(const T* dy, std::int64_t dy_stride, const T* x, std::int64_t x_stride, T* dx,
                               std::int64_t dx_stride, std::int64_t n, F f) {
  using C = compute_t<T>;
  if (dy_stride == 1 && x_stride == 1 && dx_stride == 1) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) dx[i] = static_cast<T>(f(static_cast<C>(dy[i]), static_cast<C>(x[i])));
  } else {
    for (std::int64_t i = 0; i < n; ++i)
      dx[i * dx_stride] = static_cast<T>(f(static_cast<C>(dy[i * dy_stride]), static_cast<C>(x[i * x_stride])));
  }
}

// Calls run(x, x_stride, y, y_stride, n) for all runs. Equal strides of a dense tensor are one run, without a plan.
template <class T, class Run>
void for_each_unary_run(const Tensor& x, Tensor& y, Run run) {
  const T* in = x.data<T>();
  T* out = y.mutable_data<T>();
  if (x.strides() == y.strides() && y.is_dense()) {
    parallel_for(x.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      run(in + begin, std::int64_t{1}, out + begin, std::int64_t{1}, end - begin);
    });
    return;
  }
  const auto plan = make_plan<2>(x.shape(), {&y.strides(), &x.strides()});
  for_each_run(plan, [&](const auto& offsets, std::int64_t n, const auto& strides) {
    run(in + offsets[1], strides[1], out + offsets[0], strides[0], n);
  });
}

template <class T, class F>
void map(const Tensor& x, Tensor& y, F f) {
  for_each_unary_run<T>(x, y,
                        [f](const T* in, std::int64_t in_stride, T* out, std::int64_t out_stride, std::int64_t n) {
                          map_run(in, in_stride, out, out_stride, n, f);
                        });
}

// std::sqrt may set errno, for which a loop of it stays scalar.
template <class C>
void sqrt_block(C* x, std::int64_t n) {
  using Vector = std::experimental::native_simd<C>;
  constexpr auto kWidth = static_cast<std::int64_t>(Vector::size());
  std::int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth)
    sqrt(Vector(x + i, std::experimental::element_aligned)).copy_to(x + i, std::experimental::element_aligned);
  for (; i < n; ++i) x[i] = std::sqrt(x[i]);
}

template <class T>
void sqrt(const Tensor& x, Tensor& y) {
  using C = compute_t<T>;
  for_each_unary_run<T>(x, y, [](const T* in, std::int64_t in_stride, T* out, std::int64_t out_stride, std::int64_t n) {
    constexpr std::int64_t kBlock = 256;
    C block[kBlock];
    for (std::int64_t first = 0; first < n; first += kBlock) {
      const std::int64_t count = std::min(kBlock, n - first);
      for (std::int64_t i = 0; i < count; ++i) block[i] = static_cast<C>(in[(first + i) * in_stride]);
      sqrt_block(block, count);
      for (std::int64_t i = 0; i < count; ++i) out[(first + i) * out_stride] = static_cast<T>(block[i]);
    }
  });
}

// The exponents that occur in training do not need std::pow, which is some thirty times slower.
template <class T>
void pow(const Tensor& x, double exponent, Tensor& y) {
  using C = compute_t<T>;
  if (exponent == 1) return map<T>(x, y, [](C v) { return v; });
  if (exponent == 2) return map<T>(x, y, [](C v) { return v * v; });
  if (exponent == 3) return map<T>(x, y, [](C v) { return v * v * v; });
  if (exponent == -1) return map<T>(x, y, [](C v) { return 1 / v; });
  map<T>(x, y, [e = static_cast<C>(exponent)](C v) { return std::pow(v, e); });
}

template <class T>
void unary_of(UnaryOp op, const Tensor& x, Tensor& y) {
  using C = compute_t<T>;
  switch (op) {
    case UnaryOp::neg: return map<T>(x, y, [](C v) { return -v; });
    case UnaryOp::abs: return map<T>(x, y, [](C v) { return std::abs(v); });
    case UnaryOp::sign:
      return map<T>(x, y, [](C v) {
        const C positive_or_zero = v > 0 ? C{1} : v;
        return v < 0 ? C{-1} : positive_or_zero;
      });
    case UnaryOp::exp: return map<T>(x, y, [](C v) { return vector_exp(v); });
    case UnaryOp::log: return map<T>(x, y, [](C v) { return vector_log(v); });
    case UnaryOp::sqrt: return sqrt<T>(x, y);
    case UnaryOp::reciprocal: return map<T>(x, y, [](C v) { return 1 / v; });
    case UnaryOp::square: return map<T>(x, y, [](C v) { return v * v; });
    case UnaryOp::relu: return map<T>(x, y, [](C v) { return v < 0 ? C{0} : v; });
    case UnaryOp::sigmoid: return map<T>(x, y, [](C v) { return vector_sigmoid(v); });
    case UnaryOp::tanh: return map<T>(x, y, [](C v) { return vector_tanh(v); });
  }
}

// dx = f(dy, x) with the dtype's compute type; f is generic.
template <class F>
void map_backward(const char* op, const Tensor& dy, const Tensor& x, Tensor& dx, F f) {
  visit_floating(op, x.dtype(), [&]<class T>() {
    const T* in = x.data<T>();
    const T* gradient = dy.data<T>();
    T* out = dx.mutable_data<T>();
    if (dy.strides() == x.strides() && dx.strides() == x.strides() && x.is_dense()) {
      parallel_for(x.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
        map_run<T>(gradient + begin, 1, in + begin, 1, out + begin, 1, end - begin, f);
      });
      return;
    }
    const auto plan = make_plan<3>(x.shape(), {&dx.strides(), &x.strides(), &dy.strides()});
    for_each_run(plan, [&](const auto& offsets, std::int64_t n, const auto& strides) {
      map_run<T>(gradient + offsets[2], strides[2], in + offsets[1], strides[1], out + offsets[0], strides[0], n, f);
    });
  });
}

}  // namespace

template <>
void unary<DeviceType::cpu>(UnaryOp op, const Tensor& x, Tensor& y) {
  visit_floating("unary", x.dtype(), [&]<class T>() { unary_of<T>(op, x, y); });
}

template <>
void scalar<DeviceType::cpu>(ScalarOp op, const Tensor& x, double value, Tensor& y) {
  visit_floating("scalar", x.dtype(), [&]<class T>() {
    using C = compute_t<T>;
    const C s = static_cast<C>(value);
    switch (op) {
      case ScalarOp::add: return map<T>(x, y, [s](C v) { return v + s; });
      case ScalarOp::mul: return map<T>(x, y, [s](C v) { return v * s; });
      case ScalarOp::pow: return pow<T>(x, value, y);
    }
  });
}

template <>
void clamp<DeviceType::cpu>(const Tensor& x, double low, double high, Tensor& y) {
  visit_floating("clamp", x.dtype(), [&]<class T>() {
    using C = compute_t<T>;
    map<T>(x, y, [l = static_cast<C>(low), h = static_cast<C>(high)](C v) {
      const C raised = v < l ? l : v;  // in this form NaN passes
      return raised > h ? h : raised;
    });
  });
}

template <>
void relu_backward<DeviceType::cpu>(const Tensor& dy, const Tensor& y, Tensor& dx) {
  map_backward("relu_backward", dy, y, dx, [](auto g, auto v) { return v > 0 ? g : decltype(g){0}; });
}

template <>
void sigmoid_backward<DeviceType::cpu>(const Tensor& dy, const Tensor& y, Tensor& dx) {
  map_backward("sigmoid_backward", dy, y, dx, [](auto g, auto v) { return g * v * (1 - v); });
}

template <>
void tanh_backward<DeviceType::cpu>(const Tensor& dy, const Tensor& y, Tensor& dx) {
  map_backward("tanh_backward", dy, y, dx, [](auto g, auto v) { return g * (1 - v * v); });
}

template <>
void clamp_backward<DeviceType::cpu>(const Tensor& dy, const Tensor& x, double low, double high, Tensor& dx) {
  map_backward("clamp_backward", dy, x, dx, [low, high](auto g, auto v) {
    using C = decltype(g);
    return (v >= static_cast<C>(low)) & (v <= static_cast<C>(high)) ? g : C{0};
  });
}

}  // namespace tandem::core::kernels
