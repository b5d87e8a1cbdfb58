// What ends each half of a transformer's layer, in one pass over memory:
//
//   sum = residual + dropout(x),   y = layer_norm(sum)   over the last dimension D
//
// Formulas and sources are those of core/ops/dropout.h and core/ops/layer_norm.h.
#pragma once

#include <tuple>

#include "tandem/core/random.h"
#include "tandem/core/tensor.h"

namespace tandem::core {

/// What backward needs beside the weight: all but the output. Statistics as in LayerNormForward.
struct DropoutAddLayerNormForward {
  Tensor output;
  Tensor sum;
  Tensor mask;  ///< uint8: 1 where the element of x was kept; undefined where p = 0
  Tensor mean;
  Tensor inv_std;

  static constexpr std::tuple kTensors{&DropoutAddLayerNormForward::output, &DropoutAddLayerNormForward::sum,
                                       &DropoutAddLayerNormForward::mask, &DropoutAddLayerNormForward::mean,
                                       &DropoutAddLayerNormForward::inv_std};
};

/// x and residual [..., D] of one dtype; weight and bias [D] or undefined. Results are contiguous. Drops what
/// dropout(x) of a contiguous x does: element i where word i of `stream` is below p * 2^32. With p = 0 nothing is
/// drawn. The mask is saved rather than drawn again, which would take as long as all the rest of backward.
DropoutAddLayerNormForward dropout_add_layer_norm(const Tensor& x, const Tensor& residual, const Tensor& weight,
                                                  const Tensor& bias, double eps, double p, const PhiloxStream& stream);

/// One tensor twice where p = 0.
struct DropoutAddGradients {
  Tensor x, residual;
};

/// `forward` without its output. dweight and dbias as in layer_norm_backward; dy's memory is reused as there.
DropoutAddGradients dropout_add_layer_norm_backward(Tensor dy, const DropoutAddLayerNormForward& forward,
                                                    const Tensor& weight, double p, Tensor& dweight, Tensor& dbias,
                                                    bool accumulate);

namespace kernels {
// Tensors contiguous, with at least one element; vectors of the compute type. An undefined mask: p = 0.
template <DeviceType>
void dropout_add_layer_norm(const Tensor& x, const Tensor& residual, const Tensor& weight, const Tensor& bias,
                            double eps, double p, const PhiloxStream& stream, DropoutAddLayerNormForward& result);
/// `dresidual` may be `dy`. With a mask.
template <DeviceType>
void dropout_add_layer_norm_backward(const Tensor& dy, const DropoutAddLayerNormForward& forward, const Tensor& weight,
                                     double p, Tensor& dx, Tensor& dresidual, Tensor& dweight, Tensor& dbias,
                                     bool accumulate);
}  // namespace kernels

}  // namespace tandem::core
