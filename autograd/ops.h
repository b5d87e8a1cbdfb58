// All differentiable operators, by family. Each is defined in autograd/ops/<stem>.cpp, its gradient rule beside it, and
// computes with the kernels of core/ops/<stem>.h, where shapes, formulas and errors are told in full.
//
// Gradients exist for floating dtypes. Shapes broadcast as in NumPy where two operands meet.
#pragma once

#include <array>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include "tandem/autograd/variable.h"
#include "tandem/core/ops/attention.h"
#include "tandem/core/ops/conv2d.h"
#include "tandem/core/ops/cross_entropy.h"
#include "tandem/core/ops/gelu.h"
#include "tandem/core/ops/max_pool2d.h"
#include "tandem/core/random.h"

namespace tandem::autograd {

// unary.cpp -----------------------------------------------------------------------------------------------------------
Variable neg(const Variable& x);
Variable abs(const Variable& x);  ///< gradient 0 at 0
Variable exp(const Variable& x);
Variable log(const Variable& x);
Variable sqrt(const Variable& x);
Variable square(const Variable& x);
Variable reciprocal(const Variable& x);
Variable relu(const Variable& x);  ///< gradient 0 at 0
Variable sigmoid(const Variable& x);
Variable tanh(const Variable& x);
Variable pow(const Variable& x, double exponent);
Variable clamp(const Variable& x, double low, double high);  ///< gradient 1 on the bounds
/// Another floating dtype; the gradient is cast back.
Variable cast(const Variable& x, DType dtype);

// gelu.cpp ------------------------------------------------------------------------------------------------------------
Variable gelu(const Variable& x, core::GeluApproximation approximation = core::GeluApproximation::none);
/// gelu(x + bias): x [..., D], bias [D]. `recompute`: a matrix product or convolution that takes the result does not
/// keep it for backward, but computes it again there, from x, which is kept anyway.
Variable bias_gelu(const Variable& x, const Variable& bias,
                   core::GeluApproximation approximation = core::GeluApproximation::none, bool recompute = false);

// binary.cpp ----------------------------------------------------------------------------------------------------------
Variable add(const Variable& a, const Variable& b);
Variable sub(const Variable& a, const Variable& b);
Variable mul(const Variable& a, const Variable& b);
Variable div(const Variable& a, const Variable& b);
Variable maximum(const Variable& a, const Variable& b);  ///< where equal, each gets half the gradient
Variable minimum(const Variable& a, const Variable& b);
Variable add_scalar(const Variable& x, double value);
Variable mul_scalar(const Variable& x, double value);

inline Variable operator+(const Variable& a, const Variable& b) { return add(a, b); }
inline Variable operator-(const Variable& a, const Variable& b) { return sub(a, b); }
inline Variable operator*(const Variable& a, const Variable& b) { return mul(a, b); }
inline Variable operator/(const Variable& a, const Variable& b) { return div(a, b); }
inline Variable operator-(const Variable& x) { return neg(x); }
inline Variable operator+(const Variable& x, double value) { return add_scalar(x, value); }
inline Variable operator-(const Variable& x, double value) { return add_scalar(x, -value); }
inline Variable operator*(const Variable& x, double value) { return mul_scalar(x, value); }
inline Variable operator/(const Variable& x, double value) { return mul_scalar(x, 1 / value); }
inline Variable operator+(double value, const Variable& x) { return add_scalar(x, value); }
inline Variable operator-(double value, const Variable& x) { return add_scalar(neg(x), value); }
inline Variable operator*(double value, const Variable& x) { return mul_scalar(x, value); }
inline Variable operator/(double value, const Variable& x) { return mul_scalar(reciprocal(x), value); }

// where.cpp -----------------------------------------------------------------------------------------------------------
/// a where `condition` (bool) holds, else b.
Variable where(const Tensor& condition, const Variable& a, const Variable& b);

// reduce.cpp ----------------------------------------------------------------------------------------------------------
/// Over `dims`; over all where none is named.
Variable sum(const Variable& x, std::initializer_list<int> dims = {}, bool keepdim = false);
Variable mean(const Variable& x, std::initializer_list<int> dims = {}, bool keepdim = false);
/// Largest (smallest) along `dim`; the gradient goes to the first of them.
Variable max(const Variable& x, int dim, bool keepdim = false);
Variable min(const Variable& x, int dim, bool keepdim = false);

// matmul.cpp, linear.cpp, conv2d.cpp ----------------------------------------------------------------------------------
/// [..., M, K] x [..., K, N] -> [..., M, N]
Variable matmul(const Variable& a, const Variable& b);
/// x [..., in], weight [out, in], bias [out] or undefined -> [..., out]
Variable linear(const Variable& x, const Variable& weight, const Variable& bias);
/// x [N, C, H, W], weight [O, C / groups, kh, kw], bias [O] or undefined -> [N, O, H', W'], channels-last
Variable conv2d(const Variable& x, const Variable& weight, const Variable& bias,
                const core::Conv2dOptions& options = {});

// max_pool2d.cpp, avg_pool2d.cpp --------------------------------------------------------------------------------------
Variable max_pool2d(const Variable& x, const core::Pool2dOptions& options);
Variable avg_pool2d(const Variable& x, const core::Pool2dOptions& options, bool count_include_pad = true);
/// Output of the given height and width, whatever the input's.
Variable adaptive_avg_pool2d(const Variable& x, std::array<std::int64_t, 2> size);
Variable adaptive_max_pool2d(const Variable& x, std::array<std::int64_t, 2> size);

// batch_norm.cpp ------------------------------------------------------------------------------------------------------
/// What the batch looked like, per channel [C]; the variance is the biased one (divided by N H W).
struct BatchStatistics {
  Tensor mean, variance;
};
/// What is done to the normalised values in the same pass: y = relu(batch_norm(x) + residual), each part optional.
struct BatchNormFusion {
  bool relu = false;
  Variable residual{};  ///< shape and dtype of x
  /// Without a residual: a convolution or matrix product that takes y does not keep it for backward, but computes it
  /// again there, from x, which is kept anyway.
  bool recompute = false;
};
/// x [N, C] or [N, C, H, W], normalised with the batch's own statistics, which are also stored in `statistics` if
/// given.
Variable batch_norm_training(const Variable& x, const Variable& weight, const Variable& bias, double eps,
                             BatchStatistics* statistics = nullptr, const BatchNormFusion& fusion = {});
/// The same with given statistics, which are constants.
Variable batch_norm_inference(const Variable& x, const Variable& weight, const Variable& bias,
                              const Tensor& running_mean, const Tensor& running_variance, double eps,
                              const BatchNormFusion& fusion = {});

// layer_norm.cpp, dropout_add_layer_norm.cpp --------------------------------------------------------------------------
/// x [..., D], each row of D normalised; weight, bias [D] or undefined.
Variable layer_norm(const Variable& x, const Variable& weight, const Variable& bias, double eps);
/// layer_norm(residual + dropout(x)).
Variable dropout_add_layer_norm(const Variable& x, const Variable& residual, const Variable& weight,
                                const Variable& bias, double eps, double p, const core::PhiloxStream& stream);

// dropout.cpp ---------------------------------------------------------------------------------------------------------
/// Zeroes elements with probability p, scales the others by 1 / (1 - p).
Variable dropout(const Variable& x, double p, const core::PhiloxStream& stream);

// softmax.cpp, cross_entropy.cpp --------------------------------------------------------------------------------------
Variable softmax(const Variable& x, int dim);
Variable log_softmax(const Variable& x, int dim);
/// logits [N, C, ...], target int64 [N, ...] -> scalar, or [N, ...] without reduction
Variable cross_entropy(const Variable& logits, const Tensor& target, const core::CrossEntropyOptions& options = {});

// attention.cpp -------------------------------------------------------------------------------------------------------
/// q [N, S, D], k and v [N, T, D] -> [N, S, D]; heads, mask, scale and dropout are options.
Variable attention(const Variable& q, const Variable& k, const Variable& v, const core::AttentionOptions& options);

// view.cpp: results share memory with their input where strides permit ------------------------------------------------
Variable reshape(const Variable& x, const Shape& shape);
/// Dimensions from `first` on become one.
Variable flatten(const Variable& x, int first = 1);
Variable transpose(const Variable& x, int dim0, int dim1);
Variable permute(const Variable& x, std::initializer_list<int> order);
Variable slice(const Variable& x, int dim, std::int64_t start, std::int64_t end, std::int64_t step = 1);
Variable select(const Variable& x, int dim, std::int64_t index);
Variable squeeze(const Variable& x, int dim);
Variable unsqueeze(const Variable& x, int dim);
Variable expand(const Variable& x, const Shape& shape);
Variable contiguous(const Variable& x, core::MemoryFormat format = core::MemoryFormat::contiguous);

// gather.cpp, embedding.cpp, cat.cpp ----------------------------------------------------------------------------------
/// y[i][j] = x[i][index[i][j]] for dim 1, and so on; index int64.
Variable gather(const Variable& x, int dim, const Tensor& index);
/// Rows of weight [V, D]: indices.shape + [D]. The row `padding_idx`, if any, gets no gradient.
Variable embedding(const Variable& weight, const Tensor& indices, std::int64_t padding_idx = -1);
Variable cat(std::span<const Variable> parts, int dim);
inline Variable cat(std::initializer_list<Variable> parts, int dim) {
  return cat(std::span<const Variable>(parts.begin(), parts.size()), dim);
}

}  // namespace tandem::autograd
