// Convolution through oneDNN in channels-last order. Weights and their gradients have the layout that oneDNN chooses:
// weights are packed when they are used, gradients are reordered once, into their destination. For sources in
// core/ops/cpu/ only.
#pragma once

#include "tandem/core/ops/conv2d.h"

namespace tandem::core::cpu::onednn {

// Activations are channels-last, of float32 or bfloat16, and nothing is empty. The activation is left to the
// caller. Each returns false where oneDNN has no
// fast code: nothing was written then.
bool run_conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dOptions& options, Tensor& y);
bool run_conv2d_backward_input(const Tensor& dy, const Tensor& weight, const Conv2dOptions& options, Tensor& dx);
/// `dweight` is_describable().
bool run_conv2d_backward_weight(const Tensor& dy, const Tensor& x, Tensor& dweight, bool accumulate,
                                const Conv2dOptions& options);

}  // namespace tandem::core::cpu::onednn
