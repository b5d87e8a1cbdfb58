// Scaled dot-product attention with several heads, as one operator. For each sequence n and head h, with q_h, k_h, v_h
// the d = D / heads columns of that head:
//
//   y_h = dropout(P) v_h,   P = softmax(scale q_h k_h^T + mask)   over the T places of a row
//
// Sources: Vaswani et al., "Attention is all you need", 2017; for backward, which computes P again block by block
// instead of keeping it, Dao et al., "FlashAttention", 2022.
#pragma once

#include <cstdint>
#include <optional>
#include <tuple>

#include "tandem/core/random.h"
#include "tandem/core/tensor.h"

namespace tandem::core {

struct AttentionOptions {
  std::int64_t heads = 1;  ///< divides D
  /// int64 or bool [N, T]; undefined: all 1. A place where it is 0 (false) gets no attention. A sequence without any
  /// other place gives each of its T places the same attention, as BERT's additive mask of the lowest number does, and
  /// then q and k have no influence (gradient 0).
  Tensor mask{};
  std::optional<double> scale{};  ///< 1 / sqrt(d) unless given
  /// P[n, h, s, t] is dropped where word ((n heads + h) S + s) T + t of `stream` is below dropout_p 2^32: what
  /// dropout(P) of a contiguous P [N, heads, S, T] would do.
  double dropout_p = 0;
  PhiloxStream stream{};

  static constexpr std::tuple kTensors{&AttentionOptions::mask};
};

struct AttentionForward {
  Tensor output;       ///< [N, S, D], contiguous
  Tensor log_sum_exp;  ///< [N, heads, S], of scale q k^T + mask; float64 for float64, else float32

  static constexpr std::tuple kTensors{&AttentionForward::output, &AttentionForward::log_sum_exp};
};

/// q [N, S, D], k and v [N, T, D] of one floating dtype and any strides; parts of one product [N, S, 3 D] are read
/// where they are. With bfloat16, products take bfloat16 factors, P and dS among them, and sum in float; the rest is
/// float. Nothing of size S x T is kept. T = 0 gives zeros. Throws where shapes do not fit, or there are more
/// probabilities to drop than a stream has words (2^34). The same bits for any number of threads.
AttentionForward attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options);

struct AttentionGradients {
  Tensor q, k, v;  ///< contiguous

  static constexpr std::tuple kTensors{&AttentionGradients::q, &AttentionGradients::k, &AttentionGradients::v};
};

/// With the same options. For each head, with P as above and D the dropout (0 or 1 / (1 - p) for each element):
///   dv = (P o D)^T dy,   dS = P o (D o (dy v^T) - rowsum(dy o y)),   dq = scale dS k,   dk = scale dS^T q
AttentionGradients attention_backward(const Tensor& dy, const Tensor& q, const Tensor& k, const Tensor& v,
                                      const AttentionForward& forward, const AttentionOptions& options);

namespace kernels {
// No size is 0. The last dimension of q, k, v is adjacent in memory; dy and results are contiguous. options.mask is
// contiguous and bool, or undefined; options.scale is set.
template <DeviceType>
void attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
               AttentionForward& result);
template <DeviceType>
void attention_backward(const Tensor& dy, const Tensor& q, const Tensor& k, const Tensor& v,
                        const AttentionForward& forward, const AttentionOptions& options, AttentionGradients& result);
}  // namespace kernels

}  // namespace tandem::core
