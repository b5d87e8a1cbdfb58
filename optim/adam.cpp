#include "tandem/optim/adam.h"

#include "tandem/core/ops/adam_step.h"
#include "tandem/optim/checks.h"

namespace tandem::optim {

Adam::Adam(std::vector<ParameterGroup> groups, const AdamOptions& options)
    : Optimizer({.name = "adam", .state_kinds = {"exp_avg", "exp_avg_sq"}, .counts_steps = true}, std::move(groups),
                options.lr, options.weight_decay),
      options_(options) {
  check_moments("adam", options.beta1, options.beta2, options.eps);
}

void Adam::step() {
  const core::RecordScope scope("adam", "phase");
  auto segments = make_segments<core::AdamSegment>(
      2, [&](std::size_t i, core::AdamSegment& segment) { segment.steps = ++states_[i].steps; });
  core::adam_step(segments, {.beta1 = options_.beta1,
                             .beta2 = options_.beta2,
                             .eps = options_.eps,
                             .decoupled_weight_decay = options_.decoupled_weight_decay});
}

}  // namespace tandem::optim
