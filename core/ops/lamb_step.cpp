#include "tandem/core/ops/lamb_step.h"

#include "tandem/core/ops/dispatch.h"

namespace tandem::core {

// The pass that finds the norms reads p, g, m and v, and writes m and v; the one that moves reads p, m and v, and
// writes p.
static double moved_bytes(std::span<LambSegment> segments) {
  double bytes = 0;
  for (const LambSegment& s : segments) bytes += bytes_of_passes(s, 10);
  return bytes;
}

void lamb_step(std::span<LambSegment> segments, const LambCoefficients& coefficients) {
  constexpr const char* kOp = "lamb_step";
  check_segments(kOp, segments, 2);
  if (segments.empty()) return;
  TANDEM_DISPATCH(kOp, segments[0].parameter.device(), lamb_step, segments, coefficients);
}

}  // namespace tandem::core
