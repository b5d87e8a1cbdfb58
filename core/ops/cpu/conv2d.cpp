// Convolution through oneDNN in channels-last order. Weights and their gradients have the layout that oneDNN chooses:
// packed weights are kept until the weights change, gradients are reordered once, into their destination. What oneDNN
// does badly or not at all goes to conv2d_unfold.cpp, or is a product of matrices.
#include "tandem/core/ops/conv2d.h"

#include <atomic>
#include <optional>

#include "tandem/core/ops/cpu/conv2d_unfold.h"
#include "tandem/core/ops/cpu/gemm.h"
#include "tandem/core/ops/cpu/onednn.h"
#include "tandem/core/ops/linear.h"
#include "tandem/core/traffic.h"

namespace tandem::core::cpu {
namespace {

using dnnl::memory;
using dnnl::prop_kind;
using onednn::Operation;

constexpr auto kDirect = dnnl::algorithm::convolution_direct;

std::atomic<std::uint64_t> activation_reorders{0};

// (O, C / groups, KH, KW), with a leading dimension of groups where there are several, as oneDNN wants it.
memory::dims weight_dims(const Shape& w, std::int64_t groups) {
  if (groups == 1) return {w[0], w[1], w[2], w[3]};
  return {groups, w[0] / groups, w[1], w[2], w[3]};
}

onednn::MemoryDesc plain_weights(const Tensor& w, std::int64_t groups) {
  const Strides s = w.strides();
  const memory::dims strides = groups == 1 ? memory::dims{s[0], s[1], s[2], s[3]}
                                           : memory::dims{w.shape()[0] / groups * s[0], s[0], s[1], s[2], s[3]};
  return {weight_dims(w.shape(), groups), onednn::data_type(w.dtype()), strides};
}

onednn::MemoryDesc channels_last(const Shape& s, DType dtype) {
  return {{s[0], s[1], s[2], s[3]}, onednn::data_type(dtype), memory::format_tag::nhwc};
}

// One convolution's shapes and options, and what it makes oneDNN's descriptors from.
struct Problem {
  Shape x, weight, y;
  Conv2dOptions options;
  DType dtype;                           // of activations
  std::optional<DType> bias_dtype = {};  // none: no bias

  onednn::Key key() const {
    onednn::Key key;
    for (int i = 0; i < 4; ++i) key.add(x[i]);
    for (const int i : {0, 2, 3}) key.add(weight[i]);
    for (const auto& pair : {options.stride, options.padding, options.dilation}) key.add(pair[0]).add(pair[1]);
    key.add(options.groups).add(static_cast<std::int64_t>(options.activation)).add(static_cast<std::int64_t>(dtype));
    return key.add(bias_dtype ? static_cast<std::int64_t>(*bias_dtype) : -1).add(num_threads());
  }
  memory::dims stride() const { return {options.stride[0], options.stride[1]}; }
  memory::dims dilation() const {
    return {options.dilation[0] - 1, options.dilation[1] - 1};
  }  // oneDNN counts the gaps
  memory::dims padding() const { return {options.padding[0], options.padding[1]}; }
  memory::dims end_padding() const {
    memory::dims end(2);
    for (std::size_t i = 0; i < 2; ++i) {
      const int d = 2 + static_cast<int>(i);
      end[i] = (y[d] - 1) * options.stride[i] + options.dilation[i] * (weight[d] - 1) + 1 - x[d] - options.padding[i];
    }
    return end;
  }
  onednn::MemoryDesc bias() const { return {{weight[0]}, onednn::data_type(*bias_dtype), memory::format_tag::x}; }
  onednn::MemoryDesc any_weights(DType type) const {
    return onednn::any_layout(weight_dims(weight, options.groups), type);
  }

  dnnl::convolution_forward::primitive_desc forward(const dnnl::primitive_attr& attributes) const {
    const auto src = channels_last(x, dtype), dst = channels_last(y, dtype), w = any_weights(dtype);
    using Desc = dnnl::convolution_forward::desc;
    const auto kind = prop_kind::forward_training;
    const Desc desc = bias_dtype
                          ? Desc(kind, kDirect, src, w, bias(), dst, stride(), dilation(), padding(), end_padding())
                          : Desc(kind, kDirect, src, w, dst, stride(), dilation(), padding(), end_padding());
    return {desc, attributes, onednn::engine()};
  }
};

template <class Primitive, class Description>
Operation finish(const Description& description) {
  Operation made;
  made.usable = !onednn::is_reference(description.impl_info_str());
  if (!made.usable) return made;
  made.primitive = Primitive(description);
  made.scratchpad_bytes = description.scratchpad_desc().get_size();
  if (made.scratchpad_bytes > 0) made.set(DNNL_ARG_SCRATCHPAD, description.scratchpad_desc());
  return made;
}

// An unusable operation where oneDNN throws: it does not know the combination.
template <class Make>
Operation unless_unknown(Make&& make) {
  try {
    return make();
  } catch (const dnnl::error&) {
    Operation unusable;
    unusable.usable = false;
    return unusable;
  }
}

Operation make_forward(const Problem& problem) {
  return unless_unknown([&] {
    dnnl::primitive_attr attributes = onednn::user_scratchpad();
    if (problem.options.activation == Activation::relu) {
      dnnl::post_ops relu;
      relu.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
      attributes.set_post_ops(relu);
    }
    const auto description = problem.forward(attributes);
    Operation made = finish<dnnl::convolution_forward>(description);
    made.weights = description.weights_desc();
    made.set(DNNL_ARG_SRC, description.src_desc());
    made.set(DNNL_ARG_WEIGHTS, made.weights);
    made.set(DNNL_ARG_DST, description.dst_desc());
    if (problem.bias_dtype) made.set(DNNL_ARG_BIAS, problem.bias());
    return made;
  });
}

Operation make_backward_input(const Problem& problem) {
  return unless_unknown([&] {
    const dnnl::convolution_backward_data::primitive_desc description(
        {kDirect, channels_last(problem.x, problem.dtype), problem.any_weights(problem.dtype),
         channels_last(problem.y, problem.dtype), problem.stride(), problem.dilation(), problem.padding(),
         problem.end_padding()},
        onednn::user_scratchpad(), onednn::engine(), problem.forward(onednn::user_scratchpad()));
    Operation made = finish<dnnl::convolution_backward_data>(description);
    made.weights = description.weights_desc();
    made.set(DNNL_ARG_DIFF_SRC, description.diff_src_desc());
    made.set(DNNL_ARG_WEIGHTS, made.weights);
    made.set(DNNL_ARG_DIFF_DST, description.diff_dst_desc());
    return made;
  });
}

Operation make_backward_weight(const Problem& problem) {
  return unless_unknown([&] {
    // The gradient in float32, whatever the activations are.
    const dnnl::convolution_backward_weights::primitive_desc description(
        {kDirect, channels_last(problem.x, problem.dtype), problem.any_weights(DType::float32),
         channels_last(problem.y, problem.dtype), problem.stride(), problem.dilation(), problem.padding(),
         problem.end_padding()},
        onednn::user_scratchpad(), onednn::engine(), problem.forward(onednn::user_scratchpad()));
    Operation made = finish<dnnl::convolution_backward_weights>(description);
    made.weights = description.diff_weights_desc();
    made.set(DNNL_ARG_SRC, description.src_desc());
    made.set(DNNL_ARG_DIFF_WEIGHTS, made.weights);
    made.set(DNNL_ARG_DIFF_DST, description.diff_dst_desc());
    return made;
  });
}

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

}  // namespace

ReorderStatistics reorder_statistics() {
  return {activation_reorders.load(std::memory_order_relaxed), onednn::weight_reorders()};
}

Tensor to_channels_last(const Tensor& x) {
  if (x.is_channels_last()) return x;
  activation_reorders.fetch_add(1, std::memory_order_relaxed);
  return x.contiguous(MemoryFormat::channels_last);
}

void conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dOptions& options, Tensor& y) {
  const Tensor src = to_channels_last(x);
  if (suits_onednn(x.dtype(), x.shape(), weight.shape())) {
    if (x.dtype() == DType::float32 && is_pointwise(weight.shape(), options) && has_few_pixels(y.shape()) &&
        options.activation == Activation::none) {
      Tensor pixels = pixels_of(y);
      return cpu::linear(pixels_of(src), matrix_of_weights(weight), bias, pixels);
    }
    thread_local onednn::Cache cache;
    const Problem problem{x.shape(), weight.shape(), y.shape(),
                          options,   x.dtype(),      bias.defined() ? std::optional(bias.dtype()) : std::nullopt};
    Operation& operation = cache.get(problem.key(), [&] { return make_forward(problem); });
    if (operation.usable) {
      const Tensor w = weight.is_dense() ? weight : weight.contiguous();
      const Tensor b = bias.defined() ? bias.contiguous() : bias;
      const Tensor packed = onednn::packed_weights(w, plain_weights(w, options.groups), operation);
      void* to = y.mutable_raw_data();
      if (bias.defined()) {
        operation.run({{DNNL_ARG_SRC, src.raw_data()},
                       {DNNL_ARG_WEIGHTS, packed.raw_data()},
                       {DNNL_ARG_BIAS, b.raw_data()},
                       {DNNL_ARG_DST, to}});
      } else {
        operation.run({{DNNL_ARG_SRC, src.raw_data()}, {DNNL_ARG_WEIGHTS, packed.raw_data()}, {DNNL_ARG_DST, to}});
      }
      return;
    }
  }
  if (x.dtype() != DType::bfloat16) return unfold_conv2d(src, weight.contiguous(), bias, options, y);
  Tensor wide = Tensor::empty(y.shape(), {.dtype = DType::float32, .format = MemoryFormat::channels_last});
  unfold_conv2d(as_computed(src), as_computed(weight).contiguous(), as_computed(bias), options, wide);
  y.copy_from(wide);
}

void conv2d_backward_input(const Tensor& dy, const Tensor& weight, const Conv2dOptions& options, Tensor& dx) {
  const Tensor diff = to_channels_last(dy);
  if (suits_onednn(dy.dtype(), dx.shape(), weight.shape()) && !has_few_channels(dy.dtype(), dx.shape(), options)) {
    thread_local onednn::Cache cache;
    const Problem problem{dx.shape(), weight.shape(), dy.shape(), options, dy.dtype()};
    Operation& operation = cache.get(problem.key(), [&] { return make_backward_input(problem); });
    if (operation.usable) {
      const Tensor w = weight.is_dense() ? weight : weight.contiguous();
      const Tensor packed = onednn::packed_weights(w, plain_weights(w, options.groups), operation);
      operation.run({{DNNL_ARG_DIFF_DST, diff.raw_data()},
                     {DNNL_ARG_WEIGHTS, packed.raw_data()},
                     {DNNL_ARG_DIFF_SRC, dx.mutable_raw_data()}});
      return;
    }
  }
  if (dy.dtype() != DType::bfloat16) return unfold_conv2d_backward_input(diff, weight.contiguous(), options, dx);
  Tensor wide = Tensor::empty(dx.shape(), {.dtype = DType::float32, .format = MemoryFormat::channels_last});
  unfold_conv2d_backward_input(as_computed(diff), as_computed(weight).contiguous(), options, wide);
  dx.copy_from(wide);
}

void conv2d_backward_weight(const Tensor& dy, const Tensor& x, Tensor& dweight, bool accumulate,
                            const Conv2dOptions& options) {
  const Tensor src = to_channels_last(x), diff = to_channels_last(dy);
  if (suits_onednn(x.dtype(), x.shape(), dweight.shape())) {
    if (multiplies_for_weight(x.dtype(), dy.shape(), dweight.shape(), options)) {
      Tensor matrix = matrix_of_weights(dweight);
      return cpu::linear_backward_weight(pixels_of(diff), pixels_of(src), matrix, accumulate);
    }
    thread_local onednn::Cache cache;
    const Problem problem{x.shape(), dweight.shape(), dy.shape(), options, dy.dtype()};
    Operation& operation = cache.get(problem.key(), [&] { return make_backward_weight(problem); });
    if (operation.usable) {
      Tensor packed = Tensor::empty({static_cast<std::int64_t>(operation.weights.get_size())}, {.dtype = DType::uint8});
      operation.run({{DNNL_ARG_SRC, src.raw_data()},
                     {DNNL_ARG_DIFF_DST, diff.raw_data()},
                     {DNNL_ARG_DIFF_WEIGHTS, packed.mutable_raw_data()}});
      thread_local onednn::Cache stores;
      onednn::Key key = problem.key();
      key.add(accumulate).add(static_cast<std::int64_t>(dweight.dtype()));
      for (const std::int64_t stride : dweight.strides()) key.add(stride);
      Operation& store = stores.get(key, [&] {
        return onednn::make_reorder(operation.weights, plain_weights(dweight, options.groups), accumulate);
      });
      store.run({{DNNL_ARG_FROM, packed.raw_data()}, {DNNL_ARG_TO, dweight.mutable_raw_data()}});
      traffic.reordered += static_cast<std::int64_t>(dweight.bytes());
      return;
    }
  }
  const bool direct = !accumulate && dweight.is_contiguous() && dweight.dtype() != DType::bfloat16;
  Tensor sums = direct ? dweight
                       : Tensor::empty(dweight.shape(),
                                       {.dtype = dy.dtype() == DType::float64 ? DType::float64 : DType::float32});
  unfold_conv2d_backward_weight(as_computed(diff), as_computed(src), sums, options);
  if (direct) return;
  if (accumulate) {
    add_into(sums, dweight);
  } else {
    dweight.copy_from(sums);
  }
  traffic.reordered += static_cast<std::int64_t>(dweight.bytes());
}

void conv2d_relu_backward(const Tensor& dy_given, const Tensor& y_given, Tensor& masked, Tensor& dbias,
                          bool accumulate) {
  const Tensor dy = to_channels_last(dy_given), y = to_channels_last(y_given);
  visit_floating("conv2d_relu_backward", dy.dtype(), [&]<class T>() {
    using Sum = compute_t<T>;
    const std::int64_t channels = dy.shape()[1], pixels = dy.numel() / channels;
    const std::int64_t size = std::max<std::int64_t>(128, (pixels + 511) / 512), chunks = (pixels + size - 1) / size;
    Tensor partial = Tensor::empty({chunks, channels}, {.dtype = dtype_of<Sum>});
    Sum* sums = partial.mutable_data<Sum>();
    T* to = masked.mutable_data<T>();
    const T *from = dy.data<T>(), *result = y.data<T>();
    parallel_chunks(pixels, size, [&](std::int64_t chunk, std::int64_t begin, std::int64_t end) {
      for (std::int64_t first = 0; first < channels; first += kChannels) {
        const std::int64_t count = std::min(kChannels, channels - first);
        count == kChannels
            ? mask_channels<true>(from, result, to, sums + chunk * channels, begin, end, channels, first, count)
            : mask_channels<false>(from, result, to, sums + chunk * channels, begin, end, channels, first, count);
      }
    });
    if (!dbias.defined()) return;
    for (std::int64_t i = 1; i < chunks; ++i)
      for (std::int64_t c = 0; c < channels; ++c) sums[c] += sums[i * channels + c];
    Tensor total(partial.storage(), {channels}, {1}, 0, dtype_of<Sum>);
    if (accumulate) {
      add_into(total, dbias);
    } else {
      dbias.copy_from(total);
    }
  });
}

}  // namespace tandem::core::cpu
