// Tensor: a handle to strided storage. It knows shape, dtype and device, and nothing of gradients.
//
// What is here: making tensors, looking at them, and views, which cost no copy. Arithmetic is in core/ops/, one header
// per operator. The differentiable twin is autograd::Variable.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tandem/core/device.h"
#include "tandem/core/dtype.h"
#include "tandem/core/shape.h"
#include "tandem/core/storage.h"

namespace tandem::core {

/// Order in memory of a 4-D tensor (N, C, H, W); other ranks know only `contiguous`.
enum class MemoryFormat : std::uint8_t { contiguous, channels_last };

struct TensorOptions {
  DType dtype = DType::float32;
  Device device = default_device();
  MemoryFormat format = MemoryFormat::contiguous;
};

class Tensor {
 public:
  /// An undefined tensor: no storage, "none".
  Tensor() = default;
  /// A view of `storage` from element `offset` on; nothing is checked (views below check).
  Tensor(StoragePtr storage, Shape shape, Strides strides, std::int64_t offset, DType dtype)
      : storage_(std::move(storage)), shape_(shape), strides_(strides), offset_(offset), dtype_(dtype) {}

  // Making.
  static Tensor empty(const Shape& shape, TensorOptions options = {});
  /// Shape, dtype and device of `other`; its memory order too where that is dense, else contiguous.
  static Tensor empty_like(const Tensor& other);
  static Tensor zeros(const Shape& shape, TensorOptions options = {});
  static Tensor zeros_like(const Tensor& other);
  static Tensor full(const Shape& shape, double value, TensorOptions options = {});
  static Tensor scalar(double value, DType dtype = DType::float32, Device device = default_device()) {
    return full({}, value, {.dtype = dtype, .device = device});
  }
  /// 0, 1, ..., n - 1.
  static Tensor arange(std::int64_t n, DType dtype = DType::int64);
  template <class T>
  static Tensor from(const std::vector<T>& values, const Shape& shape, Device device = default_device());
  template <class T>
  static Tensor from(const std::vector<T>& values, std::same_as<Device> auto device) {
    return from(values, Shape{static_cast<std::int64_t>(values.size())}, device);
  }
  template <class T>
  static Tensor from(const std::vector<T>& values) {
    return from(values, default_device());
  }

  // Looking.
  bool defined() const { return static_cast<bool>(storage_); }
  const Shape& shape() const { return shape_; }
  const Strides& strides() const { return strides_; }
  int rank() const { return shape_.rank(); }
  /// Size of a dimension; negative counts from the back.
  std::int64_t size(int dim) const { return shape_[normalize_dim("size", dim, rank())]; }
  std::int64_t numel() const {
    std::int64_t product = 1;
    for (const std::int64_t size : shape_) product *= size;
    return product;
  }
  std::size_t bytes() const { return static_cast<std::size_t>(numel()) * item_size(dtype_); }
  DType dtype() const { return dtype_; }
  Device device() const { return storage_ ? storage_->device() : kCpu; }
  TensorOptions options() const { return {.dtype = dtype_, .device = device()}; }
  const StoragePtr& storage() const { return storage_; }
  std::int64_t offset() const { return offset_; }

  bool is_contiguous() const;
  /// 4-D with memory order N, H, W, C. A tensor with C = 1 or H = W = 1 may be both.
  bool is_channels_last() const;
  /// Every element of a gap-free block exactly once, in any order of dimensions.
  bool is_dense() const;
  /// Same shape, and neighbours as far apart as in `other`.
  bool has_layout_of(const Tensor& other) const;
  /// No other tensor sees this memory: it may be overwritten unnoticed.
  bool is_unique() const { return storage_ && storage_->is_unique(); }
  /// Same elements of the same storage in the same places.
  bool is_same_view(const Tensor& other) const;

  // The host's door to memory. Kernels find theirs through the dispatch; host code reads what lies elsewhere through
  // copies: item(), to_vector(), to(kCpu).
  /// First element. Throws where T is not the dtype, or the memory is not the host's.
  template <class T>
  const T* data() const {
    check_access(dtype_of<T>);
    return static_cast<const T*>(storage_->data()) + offset_;
  }
  /// The same for writing; counts as a change (Storage::version).
  template <class T>
  T* mutable_data() {
    check_access(dtype_of<T>);
    storage_->bump_version();
    return static_cast<T*>(storage_->data()) + offset_;
  }
  const void* raw_data() const;
  void* mutable_raw_data();
  std::uint64_t version() const { return storage_ ? storage_->version() : 0; }

  /// The value of a one-element tensor of any dtype.
  double item() const;
  /// Elements in logical (row-major) order, converted to T.
  template <class T>
  std::vector<T> to_vector() const;
  /// "float32 [2, 3]" and the values, shortened where long.
  std::string str() const;

  // Views: share memory, never copy. Each throws naming itself and the shape where it does not apply.
  Tensor permute(std::span<const int> order) const;
  Tensor permute(std::initializer_list<int> order) const { return permute(std::span(order.begin(), order.size())); }
  Tensor transpose(int dim0, int dim1) const;
  /// Elements start, start + step, ... below `end` of dimension `dim`. start and end as in Python: negative from the
  /// back, clamped.
  Tensor slice(int dim, std::int64_t start, std::int64_t end, std::int64_t step = 1) const;
  /// One index of `dim`; the dimension goes.
  Tensor select(int dim, std::int64_t index) const;
  Tensor squeeze(int dim) const;
  Tensor unsqueeze(int dim) const;
  /// Size-1 dimensions repeated with stride 0, missing ones added in front.
  Tensor expand(const Shape& shape) const;
  /// True where reshape(shape) needs no copy; then `strides` is what the view has.
  bool can_view_as(const Shape& shape, Strides* strides) const;

  // These return the tensor itself where nothing is to be done, else a copy.
  /// A view where strides permit. One size may be -1: what is left.
  Tensor reshape(const Shape& shape) const;
  Tensor contiguous(MemoryFormat format = MemoryFormat::contiguous) const;
  Tensor to(DType dtype) const;
  Tensor to(Device device) const;

  /// A copy with memory of its own, dense, in the same memory order where that is dense.
  Tensor clone() const;
  /// Overwrites all elements; `source` may be broadcast and of another dtype. Returns *this.
  Tensor& copy_from(const Tensor& source);
  Tensor& fill(double value);

 private:
  void check_access(DType asked) const {
    if (asked != dtype_ || !storage_ || !storage_->device().is_host()) throw_no_access(asked);
  }
  [[noreturn]] void throw_no_access(DType asked) const;

  StoragePtr storage_;
  Shape shape_;
  Strides strides_;
  std::int64_t offset_ = 0;
  DType dtype_ = DType::float32;
};

/// `shape` with its -1, if there is one, replaced by what `numel` elements leave.
Shape resolve_shape(const char* op, const Shape& shape, std::int64_t numel);

template <class T>
Tensor Tensor::from(const std::vector<T>& values, const Shape& shape, Device device) {
  if (static_cast<std::int64_t>(values.size()) != core::numel(shape))
    fail("from: {} values for shape {}", values.size(), shape.str());
  Tensor tensor = empty(shape, {.dtype = dtype_of<T>, .device = kCpu});
  T* out = tensor.mutable_data<T>();
  for (std::size_t i = 0; i < values.size(); ++i) out[i] = values[i];
  return tensor.to(device);
}

template <class T>
std::vector<T> Tensor::to_vector() const {
  const Tensor dense = to(dtype_of<T>).to(kCpu).contiguous();
  const T* first = dense.data<T>();
  return std::vector<T>(first, first + dense.numel());
}

}  // namespace tandem::core
