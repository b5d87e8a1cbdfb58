// A step along a velocity: stochastic gradient descent with momentum, and LARS, whose rate fits each parameter's norm.
#pragma once

#include <span>

#include "tandem/core/ops/segment.h"

namespace tandem::core {

/// state[0] is the velocity b; undefined: there is no momentum.
struct MomentumSegment : Segment {
  double keep = 0, add = 1;  ///< of the velocity and of the gradient that goes into it
  bool adapt = false;        ///< LARS
};

struct MomentumCoefficients {
  double momentum = 0;  ///< for Nesterov's form
  bool nesterov = false;
  double trust_coefficient = 0, eps = 0;  ///< for segments that adapt
};

/// g = r (g + weight_decay p);  b = keep b + add g;  p -= lr (nesterov ? g + momentum b : b), in place.
/// r = trust_coefficient |p| / (|g| + weight_decay |p| + eps) for a segment that adapts, norms over the segment; 1 if
/// |p| or |g| is 0, and for the others. Same bits for any number of threads. Throws Error as check_segments does; then
/// nothing has been changed.
void momentum_step(std::span<MomentumSegment> segments, const MomentumCoefficients& coefficients);

namespace kernels {
template <DeviceType>
void momentum_step(std::span<MomentumSegment> segments, const MomentumCoefficients& coefficients);
}  // namespace kernels

}  // namespace tandem::core
