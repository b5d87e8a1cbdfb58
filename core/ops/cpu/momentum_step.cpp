#include "tandem/core/ops/momentum_step.h"

#include <cmath>

#include "tandem/core/cpu/block_sums.h"
#include "tandem/core/ops/cpu/segments.h"

namespace tandem::core::kernels {
using namespace cpu;
namespace {

template <class T>
struct Flat : FlatSegment<T> {
  explicit Flat(MomentumSegment& s)
      : FlatSegment<T>(s),
        lr(static_cast<T>(s.lr)),
        decay(static_cast<T>(s.weight_decay)),
        keep(static_cast<T>(s.keep)),
        add(static_cast<T>(s.add)),
        given(&s) {}

  T lr, decay, keep, add;
  T scale = 1;  // of gradient and weight decay
  const MomentumSegment* given;
};

double trust_ratio(double weight_norm, double gradient_norm, double weight_decay, const MomentumCoefficients& c) {
  if (!(weight_norm > 0 && gradient_norm > 0)) return 1;
  return c.trust_coefficient * weight_norm / (gradient_norm + weight_decay * weight_norm + c.eps);
}

// The first pass, for segments that adapt.
template <class T>
void set_scales(std::vector<Flat<T>>& segments, const MomentumCoefficients& coefficients) {
  const auto squares = sum_pieces<2>(segments, [](const Flat<T>& s, std::int64_t begin, std::int64_t end) {
    if (!s.given->adapt) return std::array{0.0, 0.0};
    return std::array{sum_of_squares(s.parameter + begin, end - begin),
                      sum_of_squares(s.gradient + begin, end - begin)};
  });
  for (std::size_t i = 0; i < segments.size(); ++i)
    segments[i].scale = static_cast<T>(
        trust_ratio(std::sqrt(squares[i][0]), std::sqrt(squares[i][1]), segments[i].given->weight_decay, coefficients));
}

template <class T>
void move(const std::vector<Flat<T>>& segments, T momentum, bool nesterov) {
  for_each_piece(segments, [=](const Flat<T>& s, std::int64_t begin, std::int64_t end) {
    const T lr = s.lr, decay = s.decay, keep = s.keep, add = s.add, scale = s.scale;
    T* const p = s.parameter;
    const T* const g = s.gradient;
    T* const b = s.state[0];
    if (b == nullptr) {
      for (std::int64_t k = begin; k < end; ++k) p[k] -= lr * (scale * (g[k] + decay * p[k]));
    } else {
      for (std::int64_t k = begin; k < end; ++k) {
        const T gradient = scale * (g[k] + decay * p[k]);
        b[k] = keep * b[k] + add * gradient;
        p[k] -= lr * (nesterov ? gradient + momentum * b[k] : b[k]);
      }
    }
  });
}

template <class T>
void step(std::span<MomentumSegment> given, const MomentumCoefficients& coefficients) {
  auto segments = flatten<T>(given, [](MomentumSegment& s) { return Flat<T>(s); });
  if (std::any_of(segments.begin(), segments.end(), [](const Flat<T>& s) { return s.given->adapt; }))
    set_scales(segments, coefficients);
  move(segments, static_cast<T>(coefficients.momentum), coefficients.nesterov);
}

}  // namespace

template <>
void momentum_step<DeviceType::cpu>(std::span<MomentumSegment> segments, const MomentumCoefficients& coefficients) {
  step<float>(segments, coefficients);
  step<double>(segments, coefficients);
}

}  // namespace tandem::core::kernels
