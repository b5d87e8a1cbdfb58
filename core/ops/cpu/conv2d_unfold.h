// Convolution as a matrix product over unfolded patches, in register tiles of our own: all of float64, and the float32
// shapes for which oneDNN has only reference code (a single input channel, odd groups).
//
// A patch is what one output pixel sees, in order (KH, KW, C): K = KH * KW * C / groups numbers. Patches are made for a
// few hundred pixels at a time and never leave the cache.
#pragma once

#include "tandem/core/ops/conv2d.h"

namespace tandem::core::cpu {

/// x, dx, y, dy channels-last; weight contiguous; float or double throughout.
void unfold_conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dOptions& options, Tensor& y);
void unfold_conv2d_backward_input(const Tensor& dy, const Tensor& weight, const Conv2dOptions& options, Tensor& dx);
/// dweight contiguous, overwritten. The same bits for any number of threads.
void unfold_conv2d_backward_weight(const Tensor& dy, const Tensor& x, Tensor& dweight, const Conv2dOptions& options);

}  // namespace tandem::core::cpu
