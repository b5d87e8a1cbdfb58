#include "tandem/optim/lamb.h"

#include "tandem/core/ops/lamb_step.h"
#include "tandem/optim/checks.h"

namespace tandem::optim {

Lamb::Lamb(std::vector<ParameterGroup> groups, const LambOptions& options)
    : Optimizer({.name = "lamb", .state_kinds = {"exp_avg", "exp_avg_sq"}, .counts_steps = true}, std::move(groups),
                options.lr, options.weight_decay),
      options_(options) {
  check_moments("lamb", options.beta1, options.beta2, options.eps);
}

void Lamb::step() {
  const core::RecordScope scope("lamb", "phase");
  auto segments = make_segments<core::LambSegment>(2, [&](std::size_t i, core::LambSegment& segment) {
    segment.steps = ++states_[i].steps;
    segment.adapt = treatments_[i].adapt;
  });
  core::lamb_step(segments, {.beta1 = options_.beta1, .beta2 = options_.beta2, .eps = options_.eps});
}

}  // namespace tandem::optim
