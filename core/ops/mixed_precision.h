// Mixed precision: activations in bfloat16, half the memory and up to twice the multiply-adds, beside parameters, their
// gradients and statistics in float32. The dtype of activations says which it is; there is no mode to switch on.
// Source: Micikevicius et al., "Mixed precision training", 2018; bfloat16 has float32's range, so losses are not
// scaled.
#pragma once

#include "tandem/core/tensor.h"

namespace tandem::core {

/// Throws where `parameter`, or its gradient, has neither the dtype of `activations` nor is float32 beside bfloat16.
void check_parameter_dtype(const char* op, const char* what, const Tensor& parameter, const Tensor& activations);

namespace cpu {
/// The processor has instructions that multiply bfloat16 (AVX-512 BF16, AMX). Without them products of bfloat16 are
/// computed in float32: right, but slower than float32 itself.
bool has_bfloat16_products();
}  // namespace cpu

}  // namespace tandem::core
