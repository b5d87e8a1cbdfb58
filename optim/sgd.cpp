#include "tandem/optim/sgd.h"

#include <cmath>

#include "tandem/core/recorder.h"
#include "tandem/optim/checks.h"
#include "tandem/optim/momentum_pass.h"

namespace tandem::optim {

Sgd::Sgd(std::vector<ParameterGroup> groups, const SgdOptions& options)
    : Optimizer({.name = "sgd", .state_kinds = {"momentum_buffer"}}, std::move(groups), options.lr,
                options.weight_decay),
      options_(options) {
  check_not_negative("sgd", "momentum", options.momentum);
  if (!std::isfinite(options.dampening)) core::fail("sgd: the dampening is {}, must be a number", options.dampening);
  if (options.nesterov && (options.momentum <= 0 || options.dampening != 0))
    core::fail("sgd: nesterov needs a momentum and no dampening, got {} and {}", options.momentum, options.dampening);
}

void Sgd::step() {
  core::RecordScope scope("sgd", "phase");
  check_parameters();
  if (scope.is_recording()) scope.add(cost_of_passes(options_.momentum != 0 ? 5 : 3));
  step_dtype<float>();
  step_dtype<double>();
}

template <class T>
void Sgd::step_dtype() {
  std::vector<MomentumSegment<T>> segments;
  std::vector<Tensor> keep;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!is_moved<T>(i)) continue;
    const std::span<Tensor> velocity(states_[i].tensors.data(), options_.momentum != 0 ? 1 : 0);
    const bool is_first = !states_[i].tensors[0].defined();
    segments.push_back({make_segment<T, 1>(parameters_[i], velocity, keep),
                        /*lr=*/static_cast<T>(lr_ * treatments_[i].lr_factor),
                        /*decay=*/static_cast<T>(treatments_[i].weight_decay),
                        /*keep=*/static_cast<T>(is_first ? 0 : options_.momentum),
                        /*add=*/static_cast<T>(is_first ? 1 : 1 - options_.dampening),
                        /*scale=*/T(1)});
  }
  momentum_pass(segments, static_cast<T>(options_.momentum), options_.nesterov);
}

}  // namespace tandem::optim
