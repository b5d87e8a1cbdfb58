// Dropout: zeroes elements at random and scales the others so that the expected value stays.
//
// Source: Srivastava et al., "Dropout: a simple way to prevent neural networks from overfitting", JMLR 15, 2014
// (the "inverted" form, which scales in training so that inference needs nothing).
#pragma once

#include "tandem/core/random.h"
#include "tandem/core/tensor.h"

namespace tandem::core {

struct DropoutResult {
  Tensor output;
  Tensor mask;  ///< uint8: 1 where the element was kept
};

/// Keeps an element with probability 1 - p and scales it by 1 / (1 - p); a dropped one becomes 0, even a NaN.
///
/// Output and mask have the memory order of x where x is dense, else they are contiguous. Element i *in that memory
/// order* is kept where word i of `stream` is at least p * 2^32. So what is dropped is a function of stream and layout:
/// a contiguous and a channels-last tensor of equal values drop different elements. The number of threads has no
/// influence. Throws where p is outside [0, 1] or x has more elements than the stream has words (2^34).
DropoutResult dropout(const Tensor& x, double p, const PhiloxStream& stream);

/// dx = dy / (1 - p) where the mask is 1, else 0; laid out as the mask. Writes into dy's memory where nobody else sees
/// it and it is laid out so: pass it with std::move.
Tensor dropout_backward(Tensor dy, const Tensor& mask, double p);

namespace kernels {
/// All of one dense memory order.
template <DeviceType>
void dropout(const Tensor& x, double p, const PhiloxStream& stream, Tensor& output, Tensor& mask);
/// `dx` may be `dy`. dx and mask dense and laid out alike, dy with any strides.
template <DeviceType>
void dropout_backward(const Tensor& dy, const Tensor& mask, double p, Tensor& dx);
}  // namespace kernels

}  // namespace tandem::core
