// A step of LAMB: Adam with decoupled weight decay, and a rate that fits each parameter's norm.
#pragma once

#include <span>

#include "tandem/core/ops/segment.h"

namespace tandem::core {

/// state holds m and v, the running means of the gradient and of its square.
struct LambSegment : Segment {
  std::int64_t steps = 1;  ///< t: of this parameter, this one included
  bool adapt = true;
};

struct LambCoefficients {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-6;
};

/// m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;
/// u = (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps) + weight_decay p;
/// p -= lr |p| / |u| u, in place, norms over the segment; p -= lr u if |p| or |u| is 0, and for a segment that does not
/// adapt. Same bits for any number of threads. Throws Error as check_segments does; then nothing has been changed.
void lamb_step(std::span<LambSegment> segments, const LambCoefficients& coefficients);

namespace kernels {
template <DeviceType>
void lamb_step(std::span<LambSegment> segments, const LambCoefficients& coefficients);
}  // namespace kernels

}  // namespace tandem::core
