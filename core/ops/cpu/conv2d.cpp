// Convolution of channels-last images: oneDNN's where it is fast (conv2d_onednn.cpp), a product of matrices where
// pixels are the rows of one, and unfolded (conv2d_unfold.cpp) for the rest: float64, few channels, odd options.
#include "tandem/core/ops/conv2d.h"

#include <atomic>

#include "tandem/core/cpu/gemm.h"
#include "tandem/core/cpu/onednn.h"
#include "tandem/core/cpu/row_sums.h"
#include "tandem/core/ops/cpu/conv2d_onednn.h"
#include "tandem/core/ops/cpu/conv2d_trim.h"
#include "tandem/core/ops/cpu/conv2d_unfold.h"
#include "tandem/core/ops/linear.h"
#include "tandem/core/ops/unary.h"
#include "tandem/core/traffic.h"

namespace tandem::core::kernels {
using namespace cpu;
namespace {

std::atomic<std::uint64_t> activation_reorders{0};

bool suits_onednn(DType dtype, const Shape& x, const Shape& weight) {
  return dtype != DType::float64 && numel(weight) > 0 && numel(x) > 0;
}

// oneDNN's gradient of the input writes whole vectors of channels: with few of them in float32, ours is faster, up to
// five times (measured with AVX-512).
bool has_few_channels(DType dtype, const Shape& x, const Conv2dOptions& options) {
  return dtype == DType::float32 && options.groups == 1 && x[1] <= 4;
}

// A 1x1 convolution of every pixel is a product of matrices: x W^T with pixels as rows. oneDNN's convolution does that
// well but for few pixels, and for gradients of weights that make more channels of few (measured with ResNet50's
// shapes).
bool is_pointwise(const Shape& weight, const Conv2dOptions& options) {
  constexpr std::array<std::int64_t, 2> kOne{1, 1}, kNone{0, 0};
  return weight[2] == 1 && weight[3] == 1 && options.stride == kOne && options.padding == kNone && options.groups == 1;
}
bool has_few_pixels(const Shape& y) { return y[0] * y[2] * y[3] <= 1024; }

bool multiplies_for_weight(DType dtype, const Shape& y, const Shape& weight, const Conv2dOptions& options) {
  if (!is_pointwise(weight, options)) return false;
  return dtype == DType::bfloat16 ? y[0] * y[2] * y[3] <= 4096 : weight[0] > weight[1] || has_few_pixels(y);
}

// Channels-last pixels [N H W, C], and 1x1 weights [O, C], in their own memory.
Tensor pixels_of(const Tensor& x) {
  return Tensor(x.storage(), {x.shape()[0] * x.shape()[2] * x.shape()[3], x.shape()[1]}, {x.shape()[1], 1}, x.offset(),
                x.dtype());
}
Tensor matrix_of_weights(const Tensor& w) {
  return Tensor(w.storage(), {w.shape()[0], w.shape()[1]}, {w.strides()[0], w.strides()[1]}, w.offset(), w.dtype());
}

Tensor as_computed(const Tensor& t) { return !t.defined() || t.dtype() == DType::float64 ? t : t.to(DType::float32); }

void convolve(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dOptions& options, Tensor& y) {
  if (suits_onednn(x.dtype(), x.shape(), weight.shape())) {
    if (x.dtype() == DType::float32 && is_pointwise(weight.shape(), options) && has_few_pixels(y.shape())) {
      Tensor pixels = pixels_of(y);
      return linear<DeviceType::cpu>(pixels_of(x), matrix_of_weights(weight), bias, pixels);
    }
    if (onednn::run_conv2d(x, weight, bias, options, y)) return;
  }
  if (x.dtype() != DType::bfloat16) return unfold_conv2d(x, weight.contiguous(), bias, options, y);
  Tensor wide =
      Tensor::empty(y.shape(), {.dtype = DType::float32, .device = kCpu, .format = MemoryFormat::channels_last});
  unfold_conv2d(as_computed(x), as_computed(weight).contiguous(), as_computed(bias), options, wide);
  y.copy_from(wide);
}

void store(const Tensor& sums, Tensor& gradient, bool accumulate) {
  accumulate ? add_into(sums, gradient) : static_cast<void>(gradient.copy_from(sums));
  traffic.reordered += static_cast<std::int64_t>(gradient.bytes());
}

Tensor sums_for(const Tensor& gradient) {
  const DType dtype = gradient.dtype() == DType::float64 ? DType::float64 : DType::float32;
  return Tensor::empty(gradient.shape(), {.dtype = dtype, .device = kCpu});
}

void gradient_of_seen_taps(const Tensor& dy, TrimmedConv2d given, bool accumulate) {
  auto& [x, dweight, options, has_blind_spots] = given;
  if (suits_onednn(x.dtype(), x.shape(), dweight.shape())) {
    if (multiplies_for_weight(x.dtype(), dy.shape(), dweight.shape(), options)) {
      Tensor matrix = matrix_of_weights(dweight);
      return linear_backward_weight<DeviceType::cpu>(pixels_of(dy), pixels_of(x), matrix, accumulate);
    }
    if (!onednn::is_describable(dweight)) {
      Tensor sums = sums_for(dweight);
      gradient_of_seen_taps(dy, {x, sums, options, has_blind_spots}, false);
      return store(sums, dweight, accumulate);
    }
    if (!has_blind_spots && onednn::run_conv2d_backward_weight(dy, x, dweight, accumulate, options)) return;
  }
  if (!accumulate && dweight.is_contiguous() && dweight.dtype() != DType::bfloat16)
    return unfold_conv2d_backward_weight(as_computed(dy), as_computed(x), dweight, options);
  Tensor sums = sums_for(dweight);
  unfold_conv2d_backward_weight(as_computed(dy), as_computed(x), sums, options);
  store(sums, dweight, accumulate);
}

// Channels whose sums stay in registers.
constexpr std::int64_t kChannels = 32;

// Pixels [begin, end) of channels [first, first + given): the mask, and the sums into sums[first ...].
template <bool full, class T>
void mask_channels(const T* dy, const T* y, T* masked, compute_t<T>* sums, std::int64_t begin, std::int64_t end,
                   std::int64_t channels, std::int64_t first, std::int64_t given) {
  using Sum = compute_t<T>;
  const std::int64_t count = full ? kChannels : given;
  Sum sum[kChannels] = {};
  for (std::int64_t pixel = begin; pixel < end; ++pixel) {
    const std::int64_t at = pixel * channels + first;
#pragma GCC ivdep  // `masked` may be `dy` itself, element by element
    for (std::int64_t c = 0; c < count; ++c) {
      const Sum value = static_cast<Sum>(y[at + c]) > 0 ? static_cast<Sum>(dy[at + c]) : Sum{0};
      masked[at + c] = static_cast<T>(value);
      sum[c] += value;
    }
  }
  std::copy_n(sum, count, sums + first);
}

// Counted if it takes a copy.
Tensor to_channels_last(const Tensor& x) {
  if (x.is_channels_last()) return x;
  activation_reorders.fetch_add(1, std::memory_order_relaxed);
  return x.contiguous(MemoryFormat::channels_last);
}

}  // namespace

template <>
void conv2d<DeviceType::cpu>(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dOptions& options,
                             Tensor& y) {
  convolve(to_channels_last(x), weight, bias, options, y);
  // Not fused into the convolution: oneDNN's ReLU makes 0 of NaN, which would hide that a training has diverged.
  if (options.activation == Activation::relu) unary<DeviceType::cpu>(UnaryOp::relu, y, y);
}

template <>
void conv2d_backward_input<DeviceType::cpu>(const Tensor& dy, const Tensor& weight, const Conv2dOptions& options,
                                            Tensor& dx) {
  const Tensor diff = to_channels_last(dy);
  if (suits_onednn(dy.dtype(), dx.shape(), weight.shape()) && !has_few_channels(dy.dtype(), dx.shape(), options) &&
      onednn::run_conv2d_backward_input(diff, weight, options, dx))
    return;
  if (dy.dtype() != DType::bfloat16) return unfold_conv2d_backward_input(diff, weight.contiguous(), options, dx);
  Tensor wide =
      Tensor::empty(dx.shape(), {.dtype = DType::float32, .device = kCpu, .format = MemoryFormat::channels_last});
  unfold_conv2d_backward_input(as_computed(diff), as_computed(weight).contiguous(), options, wide);
  dx.copy_from(wide);
}

template <>
void conv2d_backward_weight<DeviceType::cpu>(const Tensor& dy, const Tensor& x, Tensor& dweight, bool accumulate,
                                             const Conv2dOptions& options) {
  const TrimmedConv2d trimmed = trim_conv2d(to_channels_last(x), dy.shape(), dweight, options);
  if (trimmed.dweight.numel() < dweight.numel() && !accumulate) dweight.fill(0);
  if (trimmed.dweight.numel() > 0) gradient_of_seen_taps(to_channels_last(dy), trimmed, accumulate);
}

template <>
void conv2d_relu_backward<DeviceType::cpu>(const Tensor& dy_given, const Tensor& y_given, Tensor& masked, Tensor& dbias,
                                           bool accumulate) {
  const Tensor dy = to_channels_last(dy_given), y = to_channels_last(y_given);
  visit_floating("conv2d_relu_backward", dy.dtype(), [&]<class T>() {
    using Sum = compute_t<T>;
    const std::int64_t channels = dy.shape()[1], pixels = dy.numel() / channels;
    T* to = masked.mutable_data<T>();
    const T *from = dy.data<T>(), *result = y.data<T>();
    const auto mask = [&](std::int64_t begin, std::int64_t end, Sum* sums) {
      for (std::int64_t first = 0; first < channels; first += kChannels) {
        const std::int64_t count = std::min(kChannels, channels - first);
        count == kChannels ? mask_channels<true>(from, result, to, sums, begin, end, channels, first, count)
                           : mask_channels<false>(from, result, to, sums, begin, end, channels, first, count);
      }
    };
    const Tensor totals = sum_in_row_chunks<Sum, Sum>(pixels, channels, rows_per_long_sum(pixels), mask);
    store_sums(totals.data<Sum>(), dbias, accumulate);
  });
}

}  // namespace tandem::core::kernels

namespace tandem::core::cpu {

ReorderStatistics reorder_statistics() {
  return {kernels::activation_reorders.load(std::memory_order_relaxed), onednn::weight_reorders()};
}

}  // namespace tandem::core::cpu
