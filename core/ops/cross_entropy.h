// Cross-entropy between logits and class indices: log-softmax, negative log-likelihood and reduction in one operator.
//
// With e = label_smoothing, w the class weights (1 where there are none), t the target of a position and q =
// log_softmax(logits):
//   loss = -(1 - e) w_t q_t - (e / C) sum_c w_c q_c
// Log-probabilities are not kept: backward makes them again from the logits and each position's normaliser.
// Positions whose target is ignore_index contribute 0. `mean` divides the sum of losses by total_weight = sum of w_t
// over the others. Source: the definition of PyTorch's torch.nn.CrossEntropyLoss for class indices, whose results these
// are.
#pragma once

#include <cstdint>
#include <tuple>

#include "tandem/core/tensor.h"

namespace tandem::core {

enum class Reduction : std::uint8_t { mean, sum, none };

struct CrossEntropyOptions {
  std::int64_t ignore_index = -100;
  double label_smoothing = 0;
  Reduction reduction = Reduction::mean;
  Tensor class_weights = {};  ///< [C], or undefined

  static constexpr std::tuple kTensors{&CrossEntropyOptions::class_weights};
};

struct CrossEntropyResult {
  Tensor loss;          ///< a scalar, or shaped as the target with Reduction::none; float32 for bfloat16 logits
  Tensor max, log_sum;  ///< of each position, dtype of the loss: q = (logits - max) - log_sum, for backward
  Tensor total_weight;  ///< what a mean divides by, a float64 scalar: the weights of the targets that count

  static constexpr std::tuple kTensors{&CrossEntropyResult::loss, &CrossEntropyResult::max,
                                       &CrossEntropyResult::log_sum, &CrossEntropyResult::total_weight};
};

/// logits [N, C] and int64 target [N], or [N, C, d1, ...] and [N, d1, ...]. Where every target is ignored, the mean is
/// 0 / 0 = NaN, as in PyTorch; its gradient is 0. Throws where shapes or dtypes do not fit, label_smoothing is outside
/// [0, 1], or a target is neither in [0, C) nor ignore_index (named with its position in the flattened target).
CrossEntropyResult cross_entropy(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& options = {});

/// Gradient for the logits, laid out as they are where their classes are adjacent, else contiguous: with g = dloss,
/// divided by total_weight for a mean,
///   dlogits_c = g (a exp(q_c) - (1 - e) w_t [c = t] - (e / C) w_c),   a = (1 - e) w_t + (e / C) sum_c w_c
/// `forward` is what cross_entropy gave for these logits, target and options.
Tensor cross_entropy_backward(const Tensor& dloss, const Tensor& logits, const Tensor& target,
                              const CrossEntropyOptions& options, const CrossEntropyResult& forward);

/// How kernels see the logits: of the position whose target is element o * inner + i, logit c lies at (o * classes + c)
/// * inner + i.
struct CrossEntropyLayout {
  std::int64_t outer, classes, inner;
};

namespace kernels {
// Targets are contiguous; weights are contiguous and of the compute type, or undefined; what is of each position is
// contiguous.
/// Checks the targets, which the other kernels take on trust.
template <DeviceType>
void cross_entropy_total_weight(const Tensor& target, std::int64_t classes, const CrossEntropyOptions& options,
                                Tensor& total_weight);
/// Reduction::none: losses of all positions. Else their sum, for a mean divided by result.total_weight.
template <DeviceType>
void cross_entropy(const Tensor& logits, const Tensor& target, const CrossEntropyLayout& layout,
                   const CrossEntropyOptions& options, CrossEntropyResult& result);
template <DeviceType>
void cross_entropy_backward(const Tensor& dloss, const Tensor& logits, const CrossEntropyResult& forward,
                            const Tensor& target, const CrossEntropyLayout& layout, const CrossEntropyOptions& options,
                            Tensor& dlogits);
}  // namespace kernels

}  // namespace tandem::core
