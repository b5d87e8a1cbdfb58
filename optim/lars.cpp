#include "tandem/optim/lars.h"

#include "tandem/core/ops/momentum_step.h"
#include "tandem/optim/checks.h"

namespace tandem::optim {

Lars::Lars(std::vector<ParameterGroup> groups, const LarsOptions& options)
    : Optimizer({.name = "lars", .state_kinds = {"momentum_buffer"}}, std::move(groups), options.lr,
                options.weight_decay),
      options_(options) {
  check_not_negative("lars", "momentum", options.momentum);
  check_not_negative("lars", "eps", options.eps);
  check_positive("lars", "trust coefficient", options.trust_coefficient);
}

void Lars::step() {
  const core::RecordScope scope("lars", "phase");
  auto segments = make_segments<core::MomentumSegment>(options_.momentum != 0 ? 1 : 0,
                                                       [&](std::size_t i, core::MomentumSegment& segment) {
                                                         segment.keep = options_.momentum;
                                                         segment.adapt = treatments_[i].adapt;
                                                       });
  core::momentum_step(
      segments, {.momentum = options_.momentum, .trust_coefficient = options_.trust_coefficient, .eps = options_.eps});
}

}  // namespace tandem::optim
