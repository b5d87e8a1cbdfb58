#include "tandem/core/ops/cpu/conv2d_onednn.h"

#include <algorithm>
#include <optional>
#include <type_traits>

#include "tandem/core/cpu/onednn.h"
#include "tandem/core/parallel.h"
#include "tandem/core/traffic.h"

namespace tandem::core::cpu::onednn {
namespace {

using dnnl::memory;
using dnnl::prop_kind;

constexpr auto kDirect = dnnl::algorithm::convolution_direct;

// (O, C / groups, KH, KW), with a leading dimension of groups where there are several, as oneDNN wants it.
memory::dims weight_dims(const Shape& w, std::int64_t groups) {
  if (groups == 1) return {w[0], w[1], w[2], w[3]};
  return {groups, w[0] / groups, w[1], w[2], w[3]};
}

MemoryDesc plain_weights(const Tensor& w, std::int64_t groups) {
  const Strides s = described_strides(w);
  const memory::dims strides = groups == 1 ? memory::dims{s[0], s[1], s[2], s[3]}
                                           : memory::dims{w.shape()[0] / groups * s[0], s[0], s[1], s[2], s[3]};
  return {weight_dims(w.shape(), groups), data_type(w.dtype()), strides};
}

Tensor packable(const Tensor& weight) {
  return weight.is_dense() && is_describable(weight) ? weight : weight.contiguous();
}

MemoryDesc channels_last(const Shape& s, DType dtype) {
  return {{s[0], s[1], s[2], s[3]}, data_type(dtype), memory::format_tag::nhwc};
}

Shape with_one_more_channel(Shape shape) {
  ++shape[1];
  return shape;
}

// `channels` known when compiled where images come with so many.
template <class Channels>
void copy_with_zeros(const bfloat16* from, bfloat16* to, std::int64_t pixels, Channels channels) {
  for (std::int64_t pixel = 0; pixel < pixels; ++pixel) {
    for (std::int64_t c = 0; c < channels; ++c) *to++ = *from++;
    *to++ = bfloat16(0.0F);
  }
}

// Of channels-last x.
Tensor with_channel_of_zeros(const Tensor& x) {
  const std::int64_t channels = x.shape()[1];
  Tensor more = Tensor::empty(with_one_more_channel(x.shape()),
                              {.dtype = x.dtype(), .device = kCpu, .format = MemoryFormat::channels_last});
  const bfloat16* from = x.data<bfloat16>();
  bfloat16* to = more.mutable_data<bfloat16>();
  parallel_for(x.numel() / channels, std::max<std::int64_t>(1, 8192 / channels),
               [&](std::int64_t begin, std::int64_t end) {
                 const auto copy = [&](auto count) {
                   copy_with_zeros(from + begin * channels, to + begin * (channels + 1), end - begin, count);
                 };
                 if (channels == 1) return copy(std::integral_constant<std::int64_t, 1>());
                 if (channels == 3) return copy(std::integral_constant<std::int64_t, 3>());
                 copy(channels);
               });
  traffic.reordered += static_cast<std::int64_t>(more.bytes());
  return more;
}

// Whether input channels of weights (O, C, KH, KW) are kept in pairs, which kernels multiply at once.
bool has_pairs(const MemoryDesc& weights) {
  const auto& blocks = weights.data.format_desc.blocking;
  const int last = blocks.inner_nblks - 1;
  return weights.data.ndims == 4 && last >= 0 && blocks.inner_idxs[last] == 1 && blocks.inner_blks[last] == 2;
}

// One convolution's shapes and options, and what it makes oneDNN's descriptors from.
struct Problem {
  Shape x, weight, y;
  Conv2dOptions options;
  DType dtype;                           // of activations
  std::optional<DType> bias_dtype = {};  // none: no bias

  Key key() const {
    Key key;
    for (int i = 0; i < 4; ++i) key.add(x[i]);
    for (const int i : {0, 2, 3}) key.add(weight[i]);
    for (const auto& pair : {options.stride, options.padding, options.dilation}) key.add(pair[0]).add(pair[1]);
    key.add(options.groups).add(static_cast<std::int64_t>(dtype));
    return key.add(bias_dtype ? static_cast<std::int64_t>(*bias_dtype) : -1).add(num_threads());
  }
  memory::dims stride() const { return {options.stride[0], options.stride[1]}; }
  // oneDNN counts the gaps.
  memory::dims dilation() const { return {options.dilation[0] - 1, options.dilation[1] - 1}; }
  memory::dims padding() const { return {options.padding[0], options.padding[1]}; }
  memory::dims end_padding() const {
    memory::dims end(2);
    for (std::size_t i = 0; i < 2; ++i) {
      const int d = 2 + static_cast<int>(i);
      end[i] = (y[d] - 1) * options.stride[i] + options.dilation[i] * (weight[d] - 1) + 1 - x[d] - options.padding[i];
    }
    return end;
  }
  MemoryDesc bias() const { return {{weight[0]}, data_type(*bias_dtype), memory::format_tag::x}; }
  MemoryDesc any_weights(DType type) const { return any_layout(weight_dims(weight, options.groups), type); }

  dnnl::convolution_forward::primitive_desc forward() const {
    const auto src = channels_last(x, dtype), dst = channels_last(y, dtype), w = any_weights(dtype);
    using Desc = dnnl::convolution_forward::desc;
    const auto kind = prop_kind::forward_training;
    const Desc desc = bias_dtype
                          ? Desc(kind, kDirect, src, w, bias(), dst, stride(), dilation(), padding(), end_padding())
                          : Desc(kind, kDirect, src, w, dst, stride(), dilation(), padding(), end_padding());
    return {desc, user_scratchpad(), engine()};
  }
};

template <class Primitive, class Description>
Operation finish(const Description& description) {
  Operation made;
  made.usable = !is_reference(description.impl_info_str());
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
    const auto description = problem.forward();
    Operation made = finish<dnnl::convolution_forward>(description);
    made.weights = description.weights_desc();
    made.set(DNNL_ARG_SRC, description.src_desc());
    made.set(DNNL_ARG_WEIGHTS, made.weights);
    made.set(DNNL_ARG_DST, description.dst_desc());
    if (problem.bias_dtype) made.set(DNNL_ARG_BIAS, problem.bias());
    return made;
  });
}

// Where weights lie in pairs, the last of an odd number of channels is read with what follows in memory: the first
// channel of the next pixel. Its weight is 0, which makes NaN of a NaN or an infinity there. So that operation takes
// one more channel of x, zeros.
Operation make_forward_of_own_pixels(const Problem& problem) {
  Operation made = make_forward(problem);
  if (!made.usable || problem.options.groups > 1 || problem.x[1] % 2 == 0 || !has_pairs(made.weights)) return made;
  Problem even = problem;
  even.x = with_one_more_channel(problem.x);
  even.weight = with_one_more_channel(problem.weight);
  Operation more = make_forward(even);
  if (!more.usable || !has_pairs(more.weights)) return made;
  --more.weights.data.dims[1];  // the same layout for the weights that there are: packing fills up with zeros
  return more;
}

Operation make_backward_input(const Problem& problem) {
  return unless_unknown([&] {
    const dnnl::convolution_backward_data::primitive_desc description(
        {kDirect, channels_last(problem.x, problem.dtype), problem.any_weights(problem.dtype),
         channels_last(problem.y, problem.dtype), problem.stride(), problem.dilation(), problem.padding(),
         problem.end_padding()},
        user_scratchpad(), engine(), problem.forward());
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
        user_scratchpad(), engine(), problem.forward());
    Operation made = finish<dnnl::convolution_backward_weights>(description);
    made.weights = description.diff_weights_desc();
    made.set(DNNL_ARG_SRC, description.src_desc());
    made.set(DNNL_ARG_DIFF_WEIGHTS, made.weights);
    made.set(DNNL_ARG_DIFF_DST, description.diff_dst_desc());
    return made;
  });
}

}  // namespace

bool run_conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dOptions& options, Tensor& y) {
  thread_local Cache cache;
  const Problem problem{x.shape(), weight.shape(), y.shape(),
                        options,   x.dtype(),      bias.defined() ? std::optional(bias.dtype()) : std::nullopt};
  Operation& operation = cache.get(problem.key(), [&] { return make_forward_of_own_pixels(problem); });
  if (!operation.usable) return false;
  const bool one_more = operation.arguments.at(DNNL_ARG_SRC).get_desc().data.dims[1] > x.shape()[1];
  const Tensor source = one_more ? with_channel_of_zeros(x) : x, w = packable(weight);
  const Tensor b = bias.defined() ? bias.contiguous() : bias;
  const Tensor packed = packed_weights(w, plain_weights(w, options.groups), operation);
  operation.run({{DNNL_ARG_SRC, source.raw_data()},
                 {DNNL_ARG_WEIGHTS, packed.raw_data()},
                 {DNNL_ARG_BIAS, bias.defined() ? b.raw_data() : nullptr},
                 {DNNL_ARG_DST, y.mutable_raw_data()}});
  return true;
}

bool run_conv2d_backward_input(const Tensor& dy, const Tensor& weight, const Conv2dOptions& options, Tensor& dx) {
  thread_local Cache cache;
  const Problem problem{dx.shape(), weight.shape(), dy.shape(), options, dy.dtype()};
  Operation& operation = cache.get(problem.key(), [&] { return make_backward_input(problem); });
  if (!operation.usable) return false;
  const Tensor w = packable(weight);
  const Tensor packed = packed_weights(w, plain_weights(w, options.groups), operation);
  operation.run({{DNNL_ARG_DIFF_DST, dy.raw_data()},
                 {DNNL_ARG_WEIGHTS, packed.raw_data()},
                 {DNNL_ARG_DIFF_SRC, dx.mutable_raw_data()}});
  return true;
}

bool run_conv2d_backward_weight(const Tensor& dy, const Tensor& x, Tensor& dweight, bool accumulate,
                                const Conv2dOptions& options) {
  thread_local Cache cache, stores;
  const Problem problem{x.shape(), dweight.shape(), dy.shape(), options, dy.dtype()};
  Operation& operation = cache.get(problem.key(), [&] { return make_backward_weight(problem); });
  if (!operation.usable) return false;
  Tensor packed =
      Tensor::empty({static_cast<std::int64_t>(operation.weights.get_size())}, {.dtype = DType::uint8, .device = kCpu});
  operation.run({{DNNL_ARG_SRC, x.raw_data()},
                 {DNNL_ARG_DIFF_DST, dy.raw_data()},
                 {DNNL_ARG_DIFF_WEIGHTS, packed.mutable_raw_data()}});
  Key key = problem.key();
  key.add(accumulate).add(static_cast<std::int64_t>(dweight.dtype()));
  for (const std::int64_t stride : dweight.strides()) key.add(stride);
  stores.get(key, [&] { return make_reorder(operation.weights, plain_weights(dweight, options.groups), accumulate); })
      .run({{DNNL_ARG_FROM, packed.raw_data()}, {DNNL_ARG_TO, dweight.mutable_raw_data()}});
  traffic.reordered += static_cast<std::int64_t>(dweight.bytes());
  return true;
}

}  // namespace tandem::core::cpu::onednn
