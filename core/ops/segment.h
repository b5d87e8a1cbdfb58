// What the operators of optimizers walk: a list of segments, each a parameter with its gradient and what the optimizer
// remembers of it. A list is one call, so a thousand small tensors cost little more than a large one.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <tuple>

#include "tandem/core/tensor.h"

namespace tandem::core {

/// All tensors of a segment have one shape, one dense layout and one dtype, float32 or float64; the dtypes of a list
/// may differ. All lie on one device.
struct Segment {
  Tensor parameter, gradient;
  std::array<Tensor, 2> state;  ///< as many as the operator needs; the others are undefined
  double lr = 0, weight_decay = 0;

  static constexpr std::tuple kTensors{&Segment::parameter, &Segment::gradient, &Segment::state};
};

/// Throws Error naming the operator and the segment, "adam_step: segment 2: ...", if this is not so.
void check_segment(const char* op, std::size_t number, const Segment& segment, std::size_t states, Device device);

/// The same for a list. `states`: how many tensors of state each segment needs.
template <class S>
void check_segments(const char* op, std::span<S> segments, std::size_t states) {
  for (std::size_t i = 0; i < segments.size(); ++i)
    check_segment(op, i, segments[i], states, segments[0].parameter.device());
}

/// Bytes of reading or writing, `passes` times in all, what is as large as the parameter.
inline double bytes_of_passes(const Segment& segment, int passes) {
  return passes * static_cast<double>(segment.parameter.bytes());
}

}  // namespace tandem::core
