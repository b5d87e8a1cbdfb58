// What our kernels share of oneDNN: engine, stream, memory descriptors, a cache of primitives, and packed weights.
//
// Creating a primitive takes from tens of microseconds to milliseconds, looking one up in oneDNN's own cache still
// several, so kernels keep theirs in a Cache keyed by shapes and options. This header is for sources in core/ops/cpu/
// only.
#pragma once

#include <array>
#include <cstdint>
#include <dnnl.hpp>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tandem/core/parallel.h"
#include "tandem/core/tensor.h"

namespace tandem::core::cpu::onednn {

using MemoryDesc = dnnl::memory::desc;

const dnnl::engine& engine();
/// Of the calling thread.
dnnl::stream& stream();

dnnl::memory::data_type data_type(DType dtype);
/// The tensor's own strides, but the contiguous ones for dimensions of size 1, whose strides may be anything.
Strides described_strides(const Tensor& tensor);
/// True if oneDNN accepts described_strides(): the rows of a dimension must not interlock with those of another, as
/// with [3, 4] of strides [12, 1] that repeats every 28 elements. Else compute with a copy.
bool is_describable(const Tensor& tensor);
/// Of a tensor that is_describable().
MemoryDesc desc_of(const Tensor& tensor);
/// The descriptor with the layout left to oneDNN.
MemoryDesc any_layout(const dnnl::memory::dims& dims, DType dtype);

/// oneDNN's slow fallback: correct, hundreds of times slower than what we have.
bool is_reference(std::string_view implementation);

/// What a primitive is looked up by: integers, filled from the front.
struct Key {
  std::array<std::int64_t, 24> values{};
  std::size_t count = 0;

  Key& add(std::int64_t value) {
    values.at(count++) = value;
    return *this;
  }
  bool operator==(const Key&) const = default;
};

struct KeyHash {
  std::size_t operator()(const Key& key) const {
    std::uint64_t hash = 0x9e3779b97f4a7c15u;
    for (std::size_t i = 0; i < key.count; ++i) {
      hash = (hash ^ static_cast<std::uint64_t>(key.values[i])) * 0xff51afd7ed558ccdu;
      hash ^= hash >> 32;
    }
    return hash;
  }
};

/// A primitive ready to run again: its memory objects stay, only their addresses change from call to call.
struct Operation {
  dnnl::primitive primitive;
  std::unordered_map<int, dnnl::memory> arguments;
  std::size_t scratchpad_bytes = 0;
  MemoryDesc weights;                            ///< layout that oneDNN chose for weights (or their gradient)
  std::unique_ptr<Operation> packing = nullptr;  ///< brings weights there, once that was needed
  MemoryDesc plain;                              ///< where `packing` takes them from
  bool usable = true;                            ///< false: oneDNN has only its reference code, use another way

  void set(int argument, const MemoryDesc& desc) { arguments[argument] = dnnl::memory(desc, engine(), nullptr); }
  /// Runs with these addresses, null for an argument that it was made without (a bias); the scratchpad comes from our
  /// allocator.
  void run(std::initializer_list<std::pair<int, const void*>> addresses);
};

/// Operations by key; each thread has its own. Forgets everything when it has grown past all reason (shapes that never
/// repeat).
class Cache {
 public:
  template <class Make>
  Operation& get(const Key& key, Make&& make) {
    const auto found = operations_.find(key);
    if (found != operations_.end()) return *found->second;
    if (operations_.size() >= 2048) operations_.clear();
    return *(operations_[key] = std::make_unique<Operation>(make()));
  }

 private:
  std::unordered_map<Key, std::unique_ptr<Operation>, KeyHash> operations_;
};

/// Attributes with the scratchpad left to us.
dnnl::primitive_attr user_scratchpad();

/// `weights`, or another right side of a product, which lie as `plain` says, in the layout and dtype that `user` wants
/// (as bytes). From the second use on it is kept beside them (Storage::derived) until they change: where each step
/// changes them after one use, the memory of a second copy would buy nothing. Safe where several threads compute with
/// the same weights; not while one of them changes them.
Tensor packed_weights(const Tensor& weights, const MemoryDesc& plain, Operation& user);

/// How often packed_weights had to pack, in this process.
std::uint64_t weight_reorders();

/// to = from, or to += from, across layouts and types, to be kept in a Cache: DNNL_ARG_FROM, DNNL_ARG_TO.
Operation make_reorder(const MemoryDesc& from, const MemoryDesc& to, bool accumulate);

/// a (M x K) b (K x N) in float32 or bfloat16, sums in float; out as the operands or float32, overwritten or added to.
/// `bias` [N], float32 or as the operands, may be undefined. Leading dimension of batches as in matmul, at most one.
/// `pack_b` brings b into oneDNN's favourite layout, by packed_weights; b may then be float32 where a is bfloat16, and
/// is rounded on the way. Operands that are not describable get copied. False if oneDNN has no fast code or `out` is
/// not describable: nothing was written.
bool run_matmul(const Tensor& a, const Tensor& b, const Tensor& bias, Tensor& out, bool accumulate, bool pack_b);

}  // namespace tandem::core::cpu::onednn
