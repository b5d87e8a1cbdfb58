#include "tandem/core/ops/gelu.h"

#include <cmath>
#include <numbers>

#include "tandem/core/cpu/normal_tail.h"
#include "tandem/core/cpu/row_sums.h"
#include "tandem/core/ops/cpu/softmax.h"

namespace tandem::core::kernels {
using namespace cpu;
namespace {

// An element costs about as much as this many of a copy.
constexpr std::int64_t kGeluGrain = kGrain / 8;

// gelu(x), and its derivative. `kTanh` is the approximation. Inputs are clamped in the form in which NaN passes.

template <bool kTanh, class C>
struct Gelu;

// With a = |x| and the tail p = P(X > a): gelu(x) = max(x, 0) - a p, for both signs, and both terms are exact to
// rounding. gelu'(x) = P(X < x) + x density(x).
template <>
struct Gelu<false, float> {
  static constexpr float kDensity = std::numbers::inv_sqrtpi_v<float> / std::numbers::sqrt2_v<float>;
  float exponential, tail, a, x;  // e^(-a^2 / 2), p

  [[gnu::always_inline]] explicit Gelu(float given) {
    const float size = std::abs(given);
    a = size > detail::kTailHigh ? detail::kTailHigh : size;
    x = given;
    exponential = exp_nonpositive(-0.5f * a * a);
    tail = exponential * normal_tail(a);
  }
  [[gnu::always_inline]] float value() const { return (x < 0 ? 0.f : x) - a * tail; }
  [[gnu::always_inline]] float slope() const {
    const float below = x < 0 ? tail : 1 - tail;
    return below + kDensity * std::copysign(a, x) * exponential;
  }
};

// For finite differences and as a reference: precise rather than fast.
template <>
struct Gelu<false, double> {
  static constexpr double kDensity = std::numbers::inv_sqrtpi / std::numbers::sqrt2;
  double x, below;  // P(X < x)

  explicit Gelu(double given) : x(given < -40 ? -40 : given), below(std::erfc(-x / std::numbers::sqrt2) / 2) {}
  double value() const { return x * below; }
  double slope() const {
    const double near = x > 40 ? 40 : x;
    return below + kDensity * near * std::exp(-near * near / 2);
  }
};

// (1 + tanh(u)) / 2 = sigmoid(2 u) = s, which does not cancel where u is negative; neither does 1 - s = e^(-2 u) s.
template <class C>
struct Gelu<true, C> {
  static constexpr C kRate = C{2} * std::numbers::sqrt2_v<C> * std::numbers::inv_sqrtpi_v<C>;
  static constexpr C kCubic = static_cast<C>(0.044715);
  static constexpr C kLow = -87;  // below it s is 0, and e^(-2 u) soon infinity
  C x, s, rest;

  [[gnu::always_inline]] explicit Gelu(C given) {
    x = given < -30 ? C{-30} : given;
    const C u = kRate * x * (1 + kCubic * x * x);
    const C exponential = vector_exp(-(u < kLow ? kLow : u));
    s = u < kLow ? C{0} : 1 / (1 + exponential);
    rest = exponential * s;
  }
  [[gnu::always_inline]] C value() const { return x * s; }
  [[gnu::always_inline]] C slope() const {
    const C near = x > 30 ? C{30} : x;
    return s * (1 + near * rest * kRate * (1 + 3 * kCubic * near * near));
  }
};

// Calls f.template operator()<kTanh>().
template <class F>
void visit(GeluApproximation approximation, F&& f) {
  switch (approximation) {
    case GeluApproximation::none: return f.template operator()<false>();
    case GeluApproximation::tanh: return f.template operator()<true>();
  }
}

// Not inlined, and plain pointers, because the compiler then vectorises. dx may be dy.
template <bool kTanh, class T>
[[gnu::noinline]] void forward_run(const T* x, T* y, std::int64_t n) {
  using C = compute_t<T>;
  store_each(y, n, [=](std::int64_t i) { return Gelu<kTanh, C>(static_cast<C>(x[i])).value(); });
}
template <bool kTanh, class T>
[[gnu::noinline]] void backward_run(const T* dy, const T* x, T* dx, std::int64_t n) {
  using C = compute_t<T>;
  store_each(dx, n,
             [=](std::int64_t i) { return static_cast<C>(dy[i]) * Gelu<kTanh, C>(static_cast<C>(x[i])).slope(); });
}
template <bool kTanh, class T>
[[gnu::noinline]] void forward_row(const T* x, const compute_t<T>* bias, T* y, std::int64_t n) {
  using C = compute_t<T>;
  store_each(y, n, [=](std::int64_t i) { return Gelu<kTanh, C>(static_cast<C>(x[i]) + bias[i]).value(); });
}
// Also adds dx to dbias [n], where kSums.
template <bool kTanh, bool kSums, class T>
[[gnu::noinline]] void backward_row(const T* dy, const T* x, const compute_t<T>* bias, T* dx, compute_t<T>* dbias,
                                    std::int64_t n) {
  using C = compute_t<T>;
  store_each(dx, n, [=](std::int64_t i) {
    const C gradient = static_cast<C>(dy[i]) * Gelu<kTanh, C>(static_cast<C>(x[i]) + bias[i]).slope();
    if constexpr (kSums) dbias[i] += gradient;
    return gradient;
  });
}

}  // namespace

template <>
void gelu<DeviceType::cpu>(const Tensor& x, GeluApproximation approximation, Tensor& y) {
  const auto plan = make_plan<2>(x.shape(), {&y.strides(), &x.strides()});
  visit_floating("gelu", x.dtype(), [&]<class T>() {
    const T* in = x.data<T>();
    T* out = y.mutable_data<T>();
    visit(approximation, [&]<bool kTanh>() {
      for_each_run(plan, [&](const auto& at, std::int64_t n, const auto& step) {
        if (step[0] == 1 && step[1] == 1) return forward_run<kTanh>(in + at[1], out + at[0], n);
        for (std::int64_t i = 0; i < n; ++i) forward_run<kTanh>(in + at[1] + i * step[1], out + at[0] + i * step[0], 1);
      });
    });
  });
}

template <>
void gelu_backward<DeviceType::cpu>(const Tensor& dy, const Tensor& x, GeluApproximation approximation, Tensor& dx) {
  const auto plan = make_plan<3>(x.shape(), {&dx.strides(), &x.strides(), &dy.strides()});
  visit_floating("gelu_backward", x.dtype(), [&]<class T>() {
    const T *in = x.data<T>(), *gradient = dy.data<T>();
    T* out = dx.mutable_data<T>();
    visit(approximation, [&]<bool kTanh>() {
      for_each_run(plan, [&](const auto& at, std::int64_t n, const auto& step) {
        if (step[0] == 1 && step[1] == 1 && step[2] == 1)
          return backward_run<kTanh>(gradient + at[2], in + at[1], out + at[0], n);
        for (std::int64_t i = 0; i < n; ++i)
          backward_run<kTanh>(gradient + at[2] + i * step[2], in + at[1] + i * step[1], out + at[0] + i * step[0], 1);
      });
    });
  });
}

template <>
void bias_gelu<DeviceType::cpu>(const Tensor& x, const Tensor& bias, GeluApproximation approximation, Tensor& y) {
  const std::int64_t n = x.shape().back(), rows = x.numel() / n;
  visit_floating("bias_gelu", x.dtype(), [&]<class T>() {
    const T* in = x.data<T>();
    const compute_t<T>* b = bias.data<compute_t<T>>();
    T* out = y.mutable_data<T>();
    visit(approximation, [&]<bool kTanh>() {
      parallel_for(rows, std::max<std::int64_t>(1, kGeluGrain / n), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t r = begin; r < end; ++r) forward_row<kTanh>(in + r * n, b, out + r * n, n);
      });
    });
  });
}

template <>
void bias_gelu_backward<DeviceType::cpu>(const Tensor& dy, const Tensor& x, const Tensor& bias,
                                         GeluApproximation approximation, Tensor& dx, Tensor& dbias, bool accumulate) {
  const std::int64_t n = x.shape().back(), rows = x.numel() / n;
  visit_floating("bias_gelu_backward", x.dtype(), [&]<class T>() {
    using C = compute_t<T>;
    const T *gradient = dy.data<T>(), *in = x.data<T>();
    const C* b = bias.data<C>();
    T* out = dx.mutable_data<T>();
    visit(approximation, [&]<bool kTanh>() {
      const auto run = [&]<bool kSums>(std::int64_t begin, std::int64_t end, C* sums) {
        for (std::int64_t r = begin; r < end; ++r)
          backward_row<kTanh, kSums>(gradient + r * n, in + r * n, b, out + r * n, sums, n);
      };
      if (!dbias.defined())
        return parallel_for(rows, std::max<std::int64_t>(1, kGeluGrain / n), [&](std::int64_t begin, std::int64_t end) {
          run.template operator()<false>(begin, end, nullptr);
        });
      const Tensor totals = sum_in_row_chunks<double, C>(
          rows, n, kRowsPerSum,
          [&](std::int64_t begin, std::int64_t end, C* sums) { run.template operator()<true>(begin, end, sums); });
      store_sums(totals.template data<double>(), dbias, accumulate);
    });
  });
}

}  // namespace tandem::core::kernels
