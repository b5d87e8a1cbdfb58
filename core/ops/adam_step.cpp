#include "tandem/core/ops/adam_step.h"

#include "tandem/core/ops/dispatch.h"

namespace tandem::core {

// Read: p, g, m and v; written: p, m and v.
static double moved_bytes(std::span<AdamSegment> segments) {
  double bytes = 0;
  for (const AdamSegment& s : segments) bytes += bytes_of_passes(s, 7);
  return bytes;
}

void adam_step(std::span<AdamSegment> segments, const AdamCoefficients& coefficients) {
  constexpr const char* kOp = "adam_step";
  check_segments(kOp, segments, 2);
  if (segments.empty()) return;
  TANDEM_DISPATCH(kOp, segments[0].parameter.device(), adam_step, segments, coefficients);
}

}  // namespace tandem::core
