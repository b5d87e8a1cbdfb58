#include "tandem/core/ops/momentum_step.h"

#include "tandem/core/ops/dispatch.h"

namespace tandem::core {

// Read: p, g and b; written: p and b. Norms read p and g once more.
static double moved_bytes(std::span<MomentumSegment> segments) {
  double bytes = 0;
  for (const MomentumSegment& s : segments)
    bytes += bytes_of_passes(s, 3 + (s.state[0].defined() ? 2 : 0) + (s.adapt ? 2 : 0));
  return bytes;
}

void momentum_step(std::span<MomentumSegment> segments, const MomentumCoefficients& coefficients) {
  constexpr const char* kOp = "momentum_step";
  check_segments(kOp, segments, 0);
  if (segments.empty()) return;
  TANDEM_DISPATCH(kOp, segments[0].parameter.device(), momentum_step, segments, coefficients);
}

}  // namespace tandem::core
