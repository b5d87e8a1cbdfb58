// A step of Adam, or of AdamW with decoupled weight decay.
#pragma once

#include <span>

#include "tandem/core/ops/segment.h"

namespace tandem::core {

/// state holds m and v, the running means of the gradient and of its square.
struct AdamSegment : Segment {
  std::int64_t steps = 1;  ///< t: of this parameter, this one included
};

struct AdamCoefficients {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  bool decoupled_weight_decay = false;  ///< p *= 1 - lr weight_decay, instead of g += weight_decay p
};

/// m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;
/// p -= lr / (1 - beta1^t) m / (sqrt(v / (1 - beta2^t)) + eps), in place.
/// Throws Error as check_segments does; then nothing has been changed.
void adam_step(std::span<AdamSegment> segments, const AdamCoefficients& coefficients);

namespace kernels {
template <DeviceType>
void adam_step(std::span<AdamSegment> segments, const AdamCoefficients& coefficients);
}  // namespace kernels

}  // namespace tandem::core
