#include "tandem/optim/adam.h"

#include <cmath>

#include "tandem/core/recorder.h"
#include "tandem/optim/moments.h"

namespace tandem::optim {

Adam::Adam(std::vector<ParameterGroup> groups, const AdamOptions& options)
    : Optimizer({.name = "adam", .state_kinds = {"exp_avg", "exp_avg_sq"}, .counts_steps = true}, std::move(groups),
                options.lr, options.weight_decay),
      options_(options) {
  check_moments("adam", options.beta1, options.beta2, options.eps);
}

void Adam::step() {
  core::RecordScope scope("adam", "phase");
  check_parameters();
  if (scope.is_recording()) scope.add(cost_of_passes(7));
  step_dtype<float>();
  step_dtype<double>();
}

template <class T>
void Adam::step_dtype() {
  struct AdamSegment : Segment<T, 2> {
    T step_size, inv_sqrt_correction2;
    T decay;   // of the gradient
    T shrink;  // of the parameter
  };
  std::vector<AdamSegment> segments;
  std::vector<Tensor> keep;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!is_moved<T>(i)) continue;
    const Treatment& treatment = treatments_[i];
    const double lr = lr_ * treatment.lr_factor;
    const BiasCorrection correction(options_.beta1, options_.beta2, ++states_[i].steps);
    const bool decoupled = options_.decoupled_weight_decay;
    segments.push_back({make_segment<T, 2>(parameters_[i], states_[i].tensors, keep),
                        static_cast<T>(lr / correction.first), static_cast<T>(1 / std::sqrt(correction.second)),
                        static_cast<T>(decoupled ? 0 : treatment.weight_decay),
                        static_cast<T>(decoupled ? 1 - lr * treatment.weight_decay : 1)});
  }
  const Moments<T> moments(options_.beta1, options_.beta2);
  const T eps = static_cast<T>(options_.eps);
  for_each_piece(segments, [=](const AdamSegment& s, std::int64_t begin, std::int64_t end) {
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

}  // namespace tandem::optim
