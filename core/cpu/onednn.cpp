#include "tandem/core/cpu/onednn.h"

#include <algorithm>
#include <atomic>
#include <mutex>

#include "tandem/core/cpu/bfloat16_layouts.h"

namespace tandem::core::cpu::onednn {
namespace {

// Every packed form of what lies in one storage: weights, or the input of a product; several tensors may share it
// (offset tells them apart).
struct PackedForms {
  struct Form {
    std::uint64_t version;
    std::int64_t offset;
    MemoryDesc plain, packed;
    Tensor memory;  // undefined until the second use of this version
  };
  std::vector<Form> forms;
};

std::atomic<std::uint64_t> packings{0};

// Of all storages: held for a look-up, while a convolution takes hundreds of times as long.
std::mutex forms_mutex;

std::vector<PackedForms::Form>& forms_of(const Tensor& weights) {
  std::shared_ptr<void>& slot = weights.storage()->derived();
  if (!slot) slot = std::make_shared<PackedForms>();
  return static_cast<PackedForms*>(slot.get())->forms;
}

dnnl::memory::dims to_dims(const Dims& dims) { return {dims.begin(), dims.end()}; }

void add_layout(Key& key, const Tensor& tensor) {
  for (const std::int64_t size : tensor.shape()) key.add(size);
  for (const std::int64_t stride : tensor.strides()) key.add(stride);
}

// What pack_panels makes.
bool is_panels(const MemoryDesc& packed) {
  return packed.data.ndims == 2 && packed.data.data_type == dnnl_bf16 &&
         packed == MemoryDesc(packed.dims(), dnnl::memory::data_type::bf16, dnnl::memory::format_tag::BA16a64b2a);
}

}  // namespace

const dnnl::engine& engine() {
  // Never destroyed: caches of threads that outlive main refer to it.
  static const auto* const engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

dnnl::stream& stream() {
  thread_local dnnl::stream stream(engine());
  return stream;
}

dnnl::memory::data_type data_type(DType dtype) {
  switch (dtype) {
    case DType::float32: return dnnl::memory::data_type::f32;
    case DType::bfloat16: return dnnl::memory::data_type::bf16;
    default: fail("onednn: no kernels for {}", name(dtype));
  }
}

Strides described_strides(const Tensor& tensor) {
  Strides strides = tensor.strides();
  for (int i = 0; i < tensor.rank(); ++i)
    if (tensor.shape()[i] == 1) strides[i] = contiguous_strides(tensor.shape())[i];
  return strides;
}

bool is_describable(const Tensor& tensor) {
  const Strides strides = described_strides(tensor);
  // From the nearest neighbours outwards, by insertion: each step must pass over all that lies within.
  std::array<std::pair<std::int64_t, std::int64_t>, kMaxRank> steps;  // with the size of their dimension
  const auto count = static_cast<std::size_t>(tensor.rank());
  for (std::size_t i = 0; i < count; ++i) {
    const std::pair step(strides[static_cast<int>(i)], tensor.shape()[static_cast<int>(i)]);
    std::size_t place = i;
    for (; place > 0 && step < steps[place - 1]; --place) steps[place] = steps[place - 1];
    steps[place] = step;
  }
  std::int64_t extent = 1;
  for (std::size_t i = 0; i < count; ++i) {
    if (steps[i].first < extent) return false;
    extent = steps[i].first * steps[i].second;
  }
  return true;
}

MemoryDesc desc_of(const Tensor& tensor) {
  return MemoryDesc(to_dims(tensor.shape()), data_type(tensor.dtype()), to_dims(described_strides(tensor)));
}

MemoryDesc any_layout(const dnnl::memory::dims& dims, DType dtype) {
  return MemoryDesc(dims, data_type(dtype), dnnl::memory::format_tag::any);
}

bool is_reference(std::string_view implementation) { return implementation.find("ref") != std::string_view::npos; }

dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

void Operation::run(std::initializer_list<std::pair<int, const void*>> addresses) {
  for (const auto& [argument, address] : addresses)
    if (address != nullptr) arguments.at(argument).set_data_handle(const_cast<void*>(address), stream());
  Tensor scratchpad;
  if (scratchpad_bytes > 0) {
    scratchpad = Tensor::empty({static_cast<std::int64_t>(scratchpad_bytes)}, {.dtype = DType::uint8, .device = kCpu});
    arguments.at(DNNL_ARG_SCRATCHPAD).set_data_handle(scratchpad.mutable_raw_data(), stream());
  }
  primitive.execute(stream(), arguments);
}

Tensor packed_weights(const Tensor& weights, const MemoryDesc& plain, Operation& user) {
  const MemoryDesc& packed = user.weights;
  if (plain == packed) return weights;
  const std::uint64_t version = weights.version();
  const auto is_wanted = [&](const PackedForms::Form& form) {
    return form.offset == weights.offset() && form.packed == packed && form.plain == plain;
  };
  bool is_first_use = false;
  {
    const std::lock_guard lock(forms_mutex);
    auto& forms = forms_of(weights);
    std::erase_if(forms, [&](const auto& form) { return form.version != version; });
    const auto found = std::find_if(forms.begin(), forms.end(), is_wanted);
    if (found != forms.end() && found->memory.defined()) return found->memory;
    is_first_use = found == forms.end();
    if (is_first_use) forms.push_back({version, weights.offset(), plain, packed, Tensor()});
  }
  // Outside the lock. Should another thread pack the same weights meanwhile, one of the two forms is forgotten.
  Tensor memory =
      Tensor::empty({static_cast<std::int64_t>(packed.get_size())}, {.dtype = DType::uint8, .device = kCpu});
  packings.fetch_add(1, std::memory_order_relaxed);
  if (is_panels(packed)) {
    pack_panels(weights, reinterpret_cast<bfloat16*>(memory.mutable_raw_data()));
  } else {
    if (!user.packing || user.plain != plain) {
      user.packing = std::make_unique<Operation>(make_reorder(plain, packed, false));
      user.plain = plain;
    }
    user.packing->run({{DNNL_ARG_FROM, weights.raw_data()}, {DNNL_ARG_TO, memory.mutable_raw_data()}});
  }
  if (is_first_use) return memory;
  const std::lock_guard lock(forms_mutex);
  auto& forms = forms_of(weights);
  const auto found = std::find_if(forms.begin(), forms.end(), is_wanted);
  if (found != forms.end() && found->version == version) found->memory = memory;
  return memory;
}

std::uint64_t weight_reorders() { return packings.load(std::memory_order_relaxed); }

Operation make_reorder(const MemoryDesc& from, const MemoryDesc& to, bool accumulate) {
  dnnl::primitive_attr attributes = user_scratchpad();
  if (accumulate) {
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    attributes.set_post_ops(sum);
  }
  const dnnl::reorder::primitive_desc description(engine(), from, engine(), to, attributes);
  Operation made;
  made.primitive = dnnl::reorder(description);
  made.scratchpad_bytes = description.scratchpad_desc().get_size();
  made.set(DNNL_ARG_FROM, from);
  made.set(DNNL_ARG_TO, to);
  if (made.scratchpad_bytes > 0) made.set(DNNL_ARG_SCRATCHPAD, description.scratchpad_desc());
  return made;
}

bool run_matmul(const Tensor& given_a, const Tensor& given_b, const Tensor& bias, Tensor& out, bool accumulate,
                bool pack_b) {
  thread_local Cache cache;
  if (!is_describable(out)) return false;
  const Tensor a = is_describable(given_a) ? given_a : given_a.contiguous(),
               b = is_describable(given_b) ? given_b : given_b.contiguous();
  Key key;
  add_layout(key, a);
  add_layout(key, b);
  for (const Tensor* operand : {&a, &b, &static_cast<const Tensor&>(out)})
    key.add(static_cast<std::int64_t>(operand->dtype()));
  key.add(bias.defined() ? static_cast<std::int64_t>(bias.dtype()) : -1).add(accumulate).add(pack_b);
  key.add(num_threads());
  for (const std::int64_t stride : out.strides()) key.add(stride);
  Operation& operation = cache.get(key, [&] {
    Operation made;
    dnnl::primitive_attr attributes = user_scratchpad();
    if (accumulate) {
      dnnl::post_ops sum;
      sum.append_sum(1.0f);
      attributes.set_post_ops(sum);
    }
    const MemoryDesc da = desc_of(a), db = pack_b ? any_layout(to_dims(b.shape()), a.dtype()) : desc_of(b),
                     dc = desc_of(out);
    dnnl::memory::dims bias_dims(static_cast<std::size_t>(out.rank()), 1);
    bias_dims.back() = out.shape().back();
    const MemoryDesc bias_desc =
        bias.defined() ? MemoryDesc(bias_dims, data_type(bias.dtype()),
                                    to_dims(contiguous_strides(Dims(std::span<const std::int64_t>(bias_dims)))))
                       : MemoryDesc();
    try {
      const auto description = bias.defined()
                                   ? dnnl::matmul::primitive_desc({da, db, bias_desc, dc}, attributes, engine())
                                   : dnnl::matmul::primitive_desc({da, db, dc}, attributes, engine());
      made.usable = !is_reference(description.impl_info_str());
      if (!made.usable) return made;
      made.primitive = dnnl::matmul(description);
      made.weights = description.weights_desc();
      made.scratchpad_bytes = description.scratchpad_desc().get_size();
      made.set(DNNL_ARG_SRC, da);
      made.set(DNNL_ARG_WEIGHTS, made.weights);
      made.set(DNNL_ARG_DST, dc);
      if (bias.defined()) made.set(DNNL_ARG_BIAS, bias_desc);
      if (made.scratchpad_bytes > 0) made.set(DNNL_ARG_SCRATCHPAD, description.scratchpad_desc());
    } catch (const dnnl::error&) {
      made.usable = false;
    }
    return made;
  });
  if (!operation.usable) return false;
  const Tensor weights = pack_b ? packed_weights(b, desc_of(b), operation) : b;
  operation.run({{DNNL_ARG_SRC, a.raw_data()},
                 {DNNL_ARG_WEIGHTS, weights.raw_data()},
                 {DNNL_ARG_BIAS, bias.defined() ? bias.raw_data() : nullptr},
                 {DNNL_ARG_DST, out.mutable_raw_data()}});
  return true;
}

}  // namespace tandem::core::cpu::onednn
