#include "tandem/core/ops/dropout_add_layer_norm.h"

#include "tandem/core/ops/cpu/dropout.h"
#include "tandem/core/ops/cpu/layer_norm.h"

namespace tandem::core::kernels {
using namespace cpu;
namespace {

template <class T>
void add_row(const T* x, const T* residual, std::int64_t n, T* sum) {
  for_each_vector<compute_t<T>>(n, [=](auto i) { put(sum, i, at(residual, i) + at(x, i)); });
}

template <class T>
void add_dropped_row(const T* x, const std::uint8_t* keep, compute_t<T> scale, const T* residual, std::int64_t n,
                     T* sum) {
  for_each_vector<compute_t<T>>(
      n, [=](auto i) { put(sum, i, at(residual, i) + kept_or_zero(at(x, i) * scale, keep, i)); });
}

}  // namespace

template <>
void dropout_add_layer_norm<DeviceType::cpu>(const Tensor& x, const Tensor& residual, const Tensor& weight,
                                             const Tensor& bias, double eps, double p, const PhiloxStream& stream,
                                             DropoutAddLayerNormForward& result) {
  const std::int64_t n = x.shape().back(), rows = x.numel() / n;
  const DropoutRule rule(p);
  std::uint8_t* keep = result.mask.defined() ? result.mask.mutable_data<std::uint8_t>() : nullptr;
  visit_floating("dropout_add_layer_norm", x.dtype(), [&]<class T>() {
    using C = compute_t<T>;
    const T *in = x.data<T>(), *other = residual.data<T>();
    const C *w = weight.data<C>(), *b = bias.data<C>(), scale = static_cast<C>(rule.scale);
    T *out = result.output.mutable_data<T>(), *sums = result.sum.mutable_data<T>();
    C *means = result.mean.mutable_data<C>(), *inverse = result.inv_std.mutable_data<C>();
    parallel_for(rows, row_grain(n), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        const std::int64_t at = r * n;
        if (keep != nullptr) {
          draw_kept(stream, static_cast<std::uint64_t>(at), n, rule.threshold, keep + at);
          add_dropped_row(in + at, keep + at, scale, other + at, n, sums + at);
        } else {
          add_row(in + at, other + at, n, sums + at);
        }
        const auto moments = row_moments(sums + at, n, eps);
        means[r] = moments.mean;
        inverse[r] = moments.inv_std;
        normalize_row(sums + at, moments, w, b, n, out + at);
      }
    });
  });
}

template <>
void dropout_add_layer_norm_backward<DeviceType::cpu>(const Tensor& dy, const DropoutAddLayerNormForward& forward,
                                                      const Tensor& weight, double p, Tensor& dx, Tensor& dresidual,
                                                      Tensor& dweight, Tensor& dbias, bool accumulate) {
  const std::int64_t n = dy.shape().back(), rows = dy.numel() / n;
  const std::uint8_t* keep = forward.mask.data<std::uint8_t>();
  visit_floating("dropout_add_layer_norm_backward", dy.dtype(), [&]<class T>() {
    using C = compute_t<T>;
    const T *gradient = dy.data<T>(), *sums = forward.sum.data<T>();
    const C *w = weight.data<C>(), *means = forward.mean.data<C>(), *inverse = forward.inv_std.data<C>();
    const C scale = static_cast<C>(DropoutRule(p).scale);
    T *to_x = dx.mutable_data<T>(), *to_residual = dresidual.mutable_data<T>();
    for_each_gradient_row<C>(rows, n, dweight, dbias, accumulate, [&]<bool kSums>(std::int64_t r, C* dw, C* db) {
      const RowMoments<C> moments{means[r], inverse[r]};
      const T *g = gradient + r * n, *v = sums + r * n;
      const std::uint8_t* kept = keep + r * n;
      T *into_x = to_x + r * n, *into_residual = to_residual + r * n;
      const auto row = row_gradient_means<kSums>(g, v, moments, w, n, dw, db);
      for_each_vector<C>(n, [=](auto i) {
        const auto dsum = row_gradient(at(g, i), at(v, i), moments, at(w, i), row);
        put(into_residual, i, dsum);
        put(into_x, i, kept_or_zero(dsum * scale, kept, i));
      });
    });
  });
}

}  // namespace tandem::core::kernels
