// What SGD and LARS have in common: the pass that moves parameters along a velocity.
#pragma once

#include "tandem/optim/segments.h"

namespace tandem::optim {

/// state[0] is the velocity; null where there is no momentum.
template <class T>
struct MomentumSegment : Segment<T, 1> {
  T lr, decay;
  T keep, add;  ///< of the velocity: 0 and 1 at a parameter's first step, then momentum and 1 - dampening
  T scale;      ///< of gradient and weight decay
};

/// g = scale (g + decay p);  b = keep b + add g;  p -= lr (nesterov ? g + momentum b : b)
template <class Segment, class T>
void momentum_pass(const std::vector<Segment>& segments, T momentum, bool nesterov) {
  for_each_piece(segments, [=](const MomentumSegment<T>& s, std::int64_t begin, std::int64_t end) {
    const T lr = s.lr, decay = s.decay, keep = s.keep, add = s.add, scale = s.scale;
    T* const p = s.parameter;
    const T* const g = s.gradient;
    T* const b = s.state[0];
    if (b == nullptr) {
      for (std::int64_t k = begin; k < end; ++k) p[k] -= lr * (scale * (g[k] + decay * p[k]));
    } else {
      for (std::int64_t k = begin; k < end; ++k) {
        const T gradient = scale * (g[k] + decay * p[k]);
        b[k] = keep * b[k] + add * gradient;
        p[k] -= lr * (nesterov ? gradient + momentum * b[k] : b[k]);
      }
    }
  });
}

}  // namespace tandem::optim
