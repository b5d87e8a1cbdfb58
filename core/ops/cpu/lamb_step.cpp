#include "tandem/core/ops/lamb_step.h"

#include <cmath>

#include "tandem/core/cpu/block_sums.h"
#include "tandem/core/ops/cpu/moments.h"
#include "tandem/core/ops/cpu/segments.h"

namespace tandem::core::kernels {
using namespace cpu;
namespace {

template <class T>
struct Flat : FlatSegment<T> {
  Flat(LambSegment& s, const LambCoefficients& c)
      : FlatSegment<T>(s), eps(static_cast<T>(c.eps)), decay(static_cast<T>(s.weight_decay)), lr(s.lr), adapt(s.adapt) {
    const BiasCorrection correction(c.beta1, c.beta2, s.steps);
    inv_correction1 = static_cast<T>(1 / correction.first);
    inv_sqrt_correction2 = static_cast<T>(1 / std::sqrt(correction.second));
  }
  T update(T p, T m, T v) const {
    return inv_correction1 * m / (std::sqrt(v) * inv_sqrt_correction2 + eps) + decay * p;
  }

  T inv_correction1, inv_sqrt_correction2, eps, decay;
  T step_size = 0;  // lr |p| / |u|
  double lr;
  bool adapt;
};

// The first pass: new moments, and |p|^2 and |u|^2. The update u is not kept but computed again by the second pass,
// which costs less than writing and reading it.
template <class T>
std::array<double, 2> update_moments(const Flat<T>& segment, const Moments<T>& moments, std::int64_t begin,
                                     std::int64_t end) {
  constexpr std::int64_t kBlock = 512;
  const Flat<T> s = segment;  // a copy that stores to the arrays cannot change
  T* const m = s.state[0];
  T* const v = s.state[1];
  T u[kBlock];
  std::array<double, 2> squares{};
  for (std::int64_t block = begin; block < end; block += kBlock) {
    const std::int64_t n = std::min(kBlock, end - block);
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t k = block + i;
      moments.update(s.gradient[k], m[k], v[k]);
      u[i] = s.update(s.parameter[k], m[k], v[k]);
    }
    if (!s.adapt) continue;
    squares[0] += sum_of_squares(s.parameter + block, n);
    squares[1] += sum_of_squares(u, n);
  }
  return squares;
}

template <class T>
void move(const Flat<T>& segment, std::int64_t begin, std::int64_t end) {
  const Flat<T> s = segment;
  for (std::int64_t k = begin; k < end; ++k)
    s.parameter[k] -= s.step_size * s.update(s.parameter[k], s.state[0][k], s.state[1][k]);
}

template <class T>
void step(std::span<LambSegment> given, const LambCoefficients& coefficients) {
  auto segments = flatten<T>(given, [&](LambSegment& s) { return Flat<T>(s, coefficients); });
  const Moments<T> moments(coefficients.beta1, coefficients.beta2);
  const auto squares = sum_pieces<2>(segments, [&](const Flat<T>& s, std::int64_t begin, std::int64_t end) {
    return update_moments(s, moments, begin, end);
  });
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const auto& [p, u] = squares[i];
    segments[i].step_size = static_cast<T>(segments[i].lr * (p > 0 && u > 0 ? std::sqrt(p / u) : 1));
  }
  for_each_piece(segments, [](const Flat<T>& s, std::int64_t begin, std::int64_t end) { move(s, begin, end); });
}

}  // namespace

template <>
void lamb_step<DeviceType::cpu>(std::span<LambSegment> segments, const LambCoefficients& coefficients) {
  step<float>(segments, coefficients);
  step<double>(segments, coefficients);
}

}  // namespace tandem::core::kernels
