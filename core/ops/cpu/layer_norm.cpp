#include "tandem/core/ops/cpu/layer_norm.h"

#include "tandem/core/ops/layer_norm.h"

namespace tandem::core::kernels {
using namespace cpu;

template <>
void layer_norm<DeviceType::cpu>(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps, Tensor& output,
                                 Tensor& mean, Tensor& inv_std) {
  const std::int64_t n = x.shape().back(), rows = x.numel() / n;
  visit_floating("layer_norm", x.dtype(), [&]<class T>() {
    using C = compute_t<T>;
    const T* in = x.data<T>();
    const C *w = weight.data<C>(), *b = bias.data<C>();
    T* out = output.mutable_data<T>();
    C *means = mean.mutable_data<C>(), *inverse = inv_std.mutable_data<C>();
    parallel_for(rows, row_grain(n), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        const auto moments = row_moments(in + r * n, n, eps);
        means[r] = moments.mean;
        inverse[r] = moments.inv_std;
        normalize_row(in + r * n, moments, w, b, n, out + r * n);
      }
    });
  });
}

template <>
void layer_norm_backward<DeviceType::cpu>(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& mean,
                                          const Tensor& inv_std, Tensor& dx, Tensor& dweight, Tensor& dbias,
                                          bool accumulate) {
  const std::int64_t n = x.shape().back(), rows = x.numel() / n;
  visit_floating("layer_norm_backward", x.dtype(), [&]<class T>() {
    using C = compute_t<T>;
    const T *gradient = dy.data<T>(), *in = x.data<T>();
    const C *w = weight.data<C>(), *means = mean.data<C>(), *inverse = inv_std.data<C>();
    T* out = dx.mutable_data<T>();
    for_each_gradient_row<C>(rows, n, dweight, dbias, accumulate, [&]<bool kSums>(std::int64_t r, C* dw, C* db) {
      const RowMoments<C> moments{means[r], inverse[r]};
      const T *g = gradient + r * n, *v = in + r * n;
      T* to = out + r * n;
      const auto row = row_gradient_means<kSums>(g, v, moments, w, n, dw, db);
      for_each_vector<C>(n, [=](auto i) { put(to, i, row_gradient(at(g, i), at(v, i), moments, at(w, i), row)); });
    });
  });
}

}  // namespace tandem::core::kernels
