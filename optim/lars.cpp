#include "tandem/optim/lars.h"

#include "tandem/core/recorder.h"
#include "tandem/optim/checks.h"
#include "tandem/optim/momentum_pass.h"
#include "tandem/optim/norms.h"

namespace tandem::optim {
namespace {

double trust_ratio(double weight_norm, double gradient_norm, double weight_decay, const LarsOptions& options) {
  if (!(weight_norm > 0 && gradient_norm > 0)) return 1;
  return options.trust_coefficient * weight_norm / (gradient_norm + weight_decay * weight_norm + options.eps);
}

}  // namespace

Lars::Lars(std::vector<ParameterGroup> groups, const LarsOptions& options)
    : Optimizer({.name = "lars", .state_kinds = {"momentum_buffer"}}, std::move(groups), options.lr,
                options.weight_decay),
      options_(options) {
  check_not_negative("lars", "momentum", options.momentum);
  check_not_negative("lars", "eps", options.eps);
  check_positive("lars", "trust coefficient", options.trust_coefficient);
}

void Lars::step() {
  core::RecordScope scope("lars", "phase");
  check_parameters();
  if (scope.is_recording()) scope.add(cost_of_passes(options_.momentum != 0 ? 7 : 5));
  step_dtype<float>();
  step_dtype<double>();
}

template <class T>
void Lars::step_dtype() {
  struct LarsSegment : MomentumSegment<T> {
    const Treatment& treatment;
  };
  std::vector<LarsSegment> segments;
  std::vector<Tensor> keep;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!is_moved<T>(i)) continue;
    const std::span<Tensor> velocity(states_[i].tensors.data(), options_.momentum != 0 ? 1 : 0);
    segments.push_back({{make_segment<T, 1>(parameters_[i], velocity, keep),
                         /*lr=*/static_cast<T>(lr_ * treatments_[i].lr_factor),
                         /*decay=*/static_cast<T>(treatments_[i].weight_decay),
                         /*keep=*/static_cast<T>(options_.momentum),
                         /*add=*/T(1),
                         /*scale=*/T(1)},
                        treatments_[i]});
  }
  const auto squares = sum_pieces(segments, [](const LarsSegment& s, std::int64_t begin, std::int64_t end) {
    if (!s.treatment.adapt) return std::array{0.0, 0.0};
    return std::array{sum_of_squares(s.parameter + begin, end - begin),
                      sum_of_squares(s.gradient + begin, end - begin)};
  });
  for (std::size_t i = 0; i < segments.size(); ++i)
    segments[i].scale = static_cast<T>(
        trust_ratio(std::sqrt(squares[i][0]), std::sqrt(squares[i][1]), segments[i].treatment.weight_decay, options_));
  momentum_pass(segments, static_cast<T>(options_.momentum), /*nesterov=*/false);
}

}  // namespace tandem::optim
