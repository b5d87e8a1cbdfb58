#include "tandem/core/ops/adam_step.h"

#include <cmath>

#include "tandem/core/ops/cpu/moments.h"
#include "tandem/core/ops/cpu/segments.h"

namespace tandem::core::kernels {
using namespace cpu;
namespace {

template <class T>
struct Flat : FlatSegment<T> {
  Flat(AdamSegment& s, const AdamCoefficients& c) : FlatSegment<T>(s) {
    const BiasCorrection correction(c.beta1, c.beta2, s.steps);
    step_size = static_cast<T>(s.lr / correction.first);
    inv_sqrt_correction2 = static_cast<T>(1 / std::sqrt(correction.second));
    decay = static_cast<T>(c.decoupled_weight_decay ? 0 : s.weight_decay);
    shrink = static_cast<T>(c.decoupled_weight_decay ? 1 - s.lr * s.weight_decay : 1);
  }

  T step_size, inv_sqrt_correction2;
  T decay;   // of the gradient
  T shrink;  // of the parameter
};

template <class T>
void step(std::span<AdamSegment> given, const AdamCoefficients& coefficients) {
  const auto segments = flatten<T>(given, [&](AdamSegment& s) { return Flat<T>(s, coefficients); });
  const Moments<T> moments(coefficients.beta1, coefficients.beta2);
  const T eps = static_cast<T>(coefficients.eps);
  for_each_piece(segments, [=](const Flat<T>& s, std::int64_t begin, std::int64_t end) {
    const T decay = s.decay, shrink = s.shrink, step_size = s.step_size, inv_sqrt_correction2 = s.inv_sqrt_correction2;
    T* const p = s.parameter;
    const T* const g = s.gradient;
    T* const m = s.state[0];
    T* const v = s.state[1];
    for (std::int64_t k = begin; k < end; ++k) {
      moments.update(g[k] + decay * p[k], m[k], v[k]);
      p[k] = shrink * p[k] - step_size * m[k] / (std::sqrt(v[k]) * inv_sqrt_correction2 + eps);
    }
  });
}

}  // namespace

template <>
void adam_step<DeviceType::cpu>(std::span<AdamSegment> segments, const AdamCoefficients& coefficients) {
  step<float>(segments, coefficients);
  step<double>(segments, coefficients);
}

}  // namespace tandem::core::kernels
