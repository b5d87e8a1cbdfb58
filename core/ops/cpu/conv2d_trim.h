// The smaller convolution that has the same gradient of the weights. For sources in core/ops/cpu/ only.
//
// On small images much of a convolution is padding: a 3x3 kernel on one pixel has eight taps that see nothing else.
// Their gradient is zero, and to compute it is a waste. It is a risk, too. oneDNN 2.6 leaves parts of such gradients
// unwritten: in bfloat16 if a tap sees only padding, or if there is one output column and a stride above 1; in float32
// if an output place sees only padding.
#pragma once

#include "tandem/core/ops/conv2d.h"

namespace tandem::core::cpu {

struct TrimmedConv2d {
  Tensor x;               ///< channels-last; what no tap sees beyond a single output place is cut off
  Tensor dweight;         ///< view of the given one: without outer taps that see only padding, which may leave it empty
  Conv2dOptions options;  ///< that fit both: less padding; stride 1 if there is one output place. `y` stays as it is.
  bool has_blind_spots = false;  ///< taps between others, or output places, still see only padding
};

/// Of channels-last x [N, C, H, W], y's shape [N, O, OH, OW], which is not empty, and dweight [O, C / groups, KH, KW].
TrimmedConv2d trim_conv2d(const Tensor& x, const Shape& y, const Tensor& dweight, const Conv2dOptions& options);

}  // namespace tandem::core::cpu
