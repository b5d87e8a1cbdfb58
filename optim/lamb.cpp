#include "tandem/optim/lamb.h"

#include "tandem/core/recorder.h"
#include "tandem/optim/moments.h"
#include "tandem/optim/norms.h"

namespace tandem::optim {
namespace {

template <class T>
struct LambSegment : Segment<T, 2> {
  T inv_correction1, inv_sqrt_correction2, eps, decay;
  T step_size;  // lr |p| / |u|
  bool adapt;

  T update(T p, T m, T v) const {
    return inv_correction1 * m / (std::sqrt(v) * inv_sqrt_correction2 + eps) + decay * p;
  }
};

// The first pass: new moments, and |p|^2 and |u|^2. The update u is not kept but computed again by the second pass,
// which costs less than writing and reading it.
template <class T>
std::array<double, 2> update_moments(const LambSegment<T>& segment, const Moments<T>& moments, std::int64_t begin,
                                     std::int64_t end) {
  constexpr std::int64_t kBlock = 512;
  const LambSegment<T> s = segment;  // a copy that stores to the arrays cannot change
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
void move(const LambSegment<T>& segment, std::int64_t begin, std::int64_t end) {
  const LambSegment<T> s = segment;
  for (std::int64_t k = begin; k < end; ++k)
    s.parameter[k] -= s.step_size * s.update(s.parameter[k], s.state[0][k], s.state[1][k]);
}

}  // namespace

Lamb::Lamb(std::vector<ParameterGroup> groups, const LambOptions& options)
    : Optimizer({.name = "lamb", .state_kinds = {"exp_avg", "exp_avg_sq"}, .counts_steps = true}, std::move(groups),
                options.lr, options.weight_decay),
      options_(options) {
  check_moments("lamb", options.beta1, options.beta2, options.eps);
}

void Lamb::step() {
  core::RecordScope scope("lamb", "phase");
  check_parameters();
  if (scope.is_recording()) scope.add(cost_of_passes(10));
  step_dtype<float>();
  step_dtype<double>();
}

template <class T>
void Lamb::step_dtype() {
  std::vector<LambSegment<T>> segments;
  std::vector<double> rates;
  std::vector<Tensor> keep;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!is_moved<T>(i)) continue;
    const BiasCorrection correction(options_.beta1, options_.beta2, ++states_[i].steps);
    segments.push_back({make_segment<T, 2>(parameters_[i], states_[i].tensors, keep),
                        static_cast<T>(1 / correction.first), static_cast<T>(1 / std::sqrt(correction.second)),
                        static_cast<T>(options_.eps), static_cast<T>(treatments_[i].weight_decay),
                        /*step_size=*/T(0), treatments_[i].adapt});
    rates.push_back(lr_ * treatments_[i].lr_factor);
  }
  const Moments<T> moments(options_.beta1, options_.beta2);
  const auto squares = sum_pieces(segments, [&](const auto& s, std::int64_t begin, std::int64_t end) {
    return update_moments(s, moments, begin, end);
  });
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const auto& [p, u] = squares[i];
    segments[i].step_size = static_cast<T>(rates[i] * (p > 0 && u > 0 ? std::sqrt(p / u) : 1));
  }
  for_each_piece(segments, [](const auto& s, std::int64_t begin, std::int64_t end) { move(s, begin, end); });
}

}  // namespace tandem::optim
