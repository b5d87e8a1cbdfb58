#include "tandem/optim/sgd.h"

#include <cmath>

#include "tandem/core/ops/momentum_step.h"
#include "tandem/optim/checks.h"

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
  const core::RecordScope scope("sgd", "phase");
  auto segments = make_segments<core::MomentumSegment>(options_.momentum != 0 ? 1 : 0,
                                                       [&](std::size_t i, core::MomentumSegment& segment) {
                                                         const bool is_first = !states_[i].tensors[0].defined();
                                                         segment.keep = is_first ? 0 : options_.momentum;
                                                         segment.add = is_first ? 1 : 1 - options_.dampening;
                                                       });
  core::momentum_step(segments, {.momentum = options_.momentum, .nesterov = options_.nesterov});
}

}  // namespace tandem::optim
