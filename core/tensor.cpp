#include "tandem/core/tensor.h"

#include <algorithm>
#include <cstddef>

#include "tandem/core/ops/copy.h"
#include "tandem/core/ops/fill.h"

namespace tandem::core {
namespace {

// True where (shape, strides) lists every element of a gap-free block once: there is a dimension of stride 1, one whose
// stride is the size of the first, one whose stride is the size of both, and so on.
bool covers_block(const Shape& shape, const Strides& strides) {
  unsigned left = 0;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] == 0) return true;
    if (shape[i] > 1) left |= 1u << i;
  }
  std::int64_t expected = 1;
  while (left != 0) {
    int next = 0;
    while (next < shape.rank() && !((left >> next & 1u) && strides[next] == expected)) ++next;
    if (next == shape.rank()) return false;
    expected *= shape[next];
    left &= ~(1u << next);
  }
  return true;
}

// Strides are compared only where there is something to step over.
bool has_strides(const Shape& shape, const Strides& strides, const Strides& wanted) {
  bool equal = true;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] == 0) return true;
    if (shape[i] > 1 && strides[i] != wanted[i]) equal = false;
  }
  return equal;
}

}  // namespace

Tensor Tensor::empty(const Shape& shape, TensorOptions options) {
  const auto count = static_cast<std::size_t>(core::numel(shape));
  const Strides strides =
      options.format == MemoryFormat::channels_last ? channels_last_strides(shape) : contiguous_strides(shape);
  return Tensor(StoragePtr(new Storage(count * item_size(options.dtype), options.device)), shape, strides, 0,
                options.dtype);
}

Tensor Tensor::empty_like(const Tensor& other) {
  Tensor result = empty(other.shape_, other.options());
  if (other.is_dense()) result.strides_ = other.strides_;
  return result;
}

Tensor Tensor::zeros(const Shape& shape, TensorOptions options) { return full(shape, 0, options); }

Tensor Tensor::zeros_like(const Tensor& other) {
  Tensor result = empty_like(other);
  result.fill(0);
  return result;
}

Tensor Tensor::full(const Shape& shape, double value, TensorOptions options) {
  Tensor result = empty(shape, options);
  result.fill(value);
  return result;
}

Tensor Tensor::arange(std::int64_t n, DType dtype) {
  Tensor result = empty({n}, {.dtype = DType::int64, .device = kCpu});
  auto* out = result.mutable_data<std::int64_t>();
  for (std::int64_t i = 0; i < n; ++i) out[i] = i;
  return result.to(dtype).to(default_device());
}

bool Tensor::is_contiguous() const { return has_strides(shape_, strides_, contiguous_strides(shape_)); }

bool Tensor::is_channels_last() const {
  return rank() == 4 && has_strides(shape_, strides_, channels_last_strides(shape_));
}

bool Tensor::is_dense() const { return covers_block(shape_, strides_); }

bool Tensor::has_layout_of(const Tensor& other) const {
  return shape_ == other.shape_ && has_strides(shape_, strides_, other.strides_);
}

bool Tensor::is_same_view(const Tensor& other) const {
  return storage_ == other.storage_ && offset_ == other.offset_ && dtype_ == other.dtype_ && has_layout_of(other);
}

const void* Tensor::raw_data() const {
  check_access(dtype_);
  return static_cast<const std::byte*>(storage_->data()) + offset_ * static_cast<std::int64_t>(item_size(dtype_));
}

void* Tensor::mutable_raw_data() {
  void* const data = const_cast<void*>(raw_data());
  storage_->bump_version();
  return data;
}

double Tensor::item() const {
  if (!defined() || numel() != 1) fail("item: needs one element, got {}", defined() ? shape_.str() : "none");
  return to(DType::float64).to(kCpu).data<double>()[0];
}

std::string Tensor::str() const {
  if (!defined()) return "none";
  constexpr std::int64_t kShown = 12;
  std::string text = fmt::format("{} {} {{", name(dtype_), shape_.str());
  const std::vector<double> values = to_vector<double>();
  for (std::size_t i = 0; i < values.size() && i < kShown; ++i)
    text += fmt::format("{}{:.6g}", i ? ", " : "", values[i]);
  return text + (static_cast<std::int64_t>(values.size()) > kShown ? ", ...}" : "}");
}

Tensor Tensor::permute(std::span<const int> order) const {
  if (static_cast<int>(order.size()) != rank())
    fail("permute: {} dimensions named for shape {}", order.size(), shape_.str());
  Tensor view = *this;
  unsigned seen = 0;
  for (int i = 0; i < rank(); ++i) {
    const int from = normalize_dim("permute", order[static_cast<std::size_t>(i)], rank());
    if (seen & (1u << from)) fail("permute: dimension {} of {} is named twice", from, shape_.str());
    seen |= 1u << from;
    view.shape_[i] = shape_[from];
    view.strides_[i] = strides_[from];
  }
  return view;
}

Tensor Tensor::transpose(int dim0, int dim1) const {
  dim0 = normalize_dim("transpose", dim0, rank());
  dim1 = normalize_dim("transpose", dim1, rank());
  Tensor view = *this;
  std::swap(view.shape_[dim0], view.shape_[dim1]);
  std::swap(view.strides_[dim0], view.strides_[dim1]);
  return view;
}

Tensor Tensor::slice(int dim, std::int64_t start, std::int64_t end, std::int64_t step) const {
  dim = normalize_dim("slice", dim, rank());
  if (step < 1) fail("slice: step {} is not positive", step);
  const std::int64_t size = shape_[dim];
  const auto clamp = [size](std::int64_t i) { return std::clamp<std::int64_t>(i < 0 ? i + size : i, 0, size); };
  start = clamp(start);
  end = std::max(clamp(end), start);
  Tensor view = *this;
  view.shape_[dim] = (end - start) / step + ((end - start) % step != 0);
  view.strides_[dim] = strides_[dim] * step;
  if (view.numel() > 0) view.offset_ += start * strides_[dim];  // an empty tensor has no memory to point into
  return view;
}

Tensor Tensor::select(int dim, std::int64_t index) const {
  dim = normalize_dim("select", dim, rank());
  const std::int64_t size = shape_[dim];
  if (index < -size || index >= size) fail("select: index {} in dimension {} of {}", index, dim, shape_.str());
  return slice(dim, index < 0 ? index + size : index, index < 0 ? index + size + 1 : index + 1).squeeze(dim);
}

Tensor Tensor::squeeze(int dim) const {
  dim = normalize_dim("squeeze", dim, rank());
  if (shape_[dim] != 1) fail("squeeze: dimension {} of {} is not 1", dim, shape_.str());
  Tensor view = *this;
  view.shape_ = {};
  view.strides_ = {};
  for (int i = 0; i < rank(); ++i) {
    if (i == dim) continue;
    view.shape_.push_back(shape_[i]);
    view.strides_.push_back(strides_[i]);
  }
  return view;
}

Tensor Tensor::unsqueeze(int dim) const {
  dim = normalize_dim("unsqueeze", dim, rank() + 1);
  Tensor view = *this;
  view.shape_ = {};
  view.strides_ = {};
  for (int i = 0; i <= rank(); ++i) {
    if (i == dim) {
      view.shape_.push_back(1);
      view.strides_.push_back(i < rank() ? shape_[i] * strides_[i] : 1);
    }
    if (i < rank()) {
      view.shape_.push_back(shape_[i]);
      view.strides_.push_back(strides_[i]);
    }
  }
  return view;
}

Tensor Tensor::expand(const Shape& shape) const {
  const int added = shape.rank() - rank();
  if (added < 0) fail("expand: {} has more dimensions than {}", shape_.str(), shape.str());
  for (const std::int64_t size : shape)
    if (size < 0) fail("expand: negative size in {}", shape.str());
  core::numel(shape);  // throws where it overflows: repeated memory may be of any size
  Tensor view = *this;
  view.shape_ = shape;
  view.strides_ = Dims::filled(shape.rank(), 0);
  for (int i = 0; i < rank(); ++i) {
    if (shape_[i] != shape[i + added] && shape_[i] != 1)
      fail("expand: {} does not expand to {}", shape_.str(), shape.str());
    if (shape_[i] == shape[i + added]) view.strides_[i + added] = strides_[i];
  }
  return view;
}

Shape resolve_shape(const char* op, const Shape& shape, std::int64_t numel) {
  Shape resolved = shape;
  int unknown = -1;
  std::int64_t known = 1;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] == -1) {
      if (unknown >= 0) fail("{}: more than one -1 in {}", op, shape.str());
      unknown = i;
    } else {
      if (shape[i] < 0) fail("{}: negative size in {}", op, shape.str());
      if (__builtin_mul_overflow(known, shape[i], &known))
        fail("{}: number of elements overflows in {}", op, shape.str());
    }
  }
  if (unknown >= 0 && known > 0 && numel % known == 0) resolved[unknown] = numel / known;
  if (unknown >= 0 ? resolved[unknown] < 0 : known != numel)
    fail("{}: {} elements do not fill {}", op, numel, shape.str());
  return resolved;
}

bool Tensor::can_view_as(const Shape& shape, Strides* strides) const {
  if (core::numel(shape) != numel()) return false;
  if (is_contiguous()) {
    *strides = contiguous_strides(shape);
    return true;
  }
  if (numel() == 0) return false;
  // Match runs of old dimensions that lie without a gap with runs of new ones of the same number of elements.
  *strides = Dims::filled(shape.rank(), 1);
  int next = shape.rank() - 1;
  std::int64_t run = 1, wanted = 1;
  std::int64_t base = strides_.back();
  for (int i = rank() - 1; i >= 0; --i) {
    run *= shape_[i];
    const bool run_ends = i == 0 || (shape_[i - 1] != 1 && strides_[i - 1] != run * base);
    if (!run_ends) continue;
    while (next >= 0 && (wanted < run || shape[next] == 1)) {
      (*strides)[next] = wanted * base;
      wanted *= shape[next--];
    }
    if (wanted != run) return false;
    run = wanted = 1;
    if (i > 0) base = strides_[i - 1];
  }
  return next == -1;
}

Tensor Tensor::reshape(const Shape& shape) const {
  const Shape resolved = resolve_shape("reshape", shape, numel());
  Strides strides;
  if (!can_view_as(resolved, &strides)) return contiguous().reshape(resolved);
  return Tensor(storage_, resolved, strides, offset_, dtype_);
}

Tensor Tensor::contiguous(MemoryFormat format) const {
  if (format == MemoryFormat::contiguous ? is_contiguous() : is_channels_last()) return *this;
  TensorOptions dense = options();
  dense.format = format;
  Tensor result = empty(shape_, dense);
  copy(*this, result);
  return result;
}

Tensor Tensor::to(DType dtype) const {
  if (dtype == dtype_) return *this;
  Tensor result = empty(shape_, {.dtype = dtype, .device = device()});
  if (is_dense()) result.strides_ = strides_;
  copy(*this, result);
  return result;
}

Tensor Tensor::to(Device target) const {
  if (!defined() || target == device()) return *this;
  Tensor result = empty(shape_, {.dtype = dtype_, .device = target});
  if (is_dense()) result.strides_ = strides_;
  copy(*this, result);
  return result;
}

Tensor Tensor::clone() const {
  Tensor result = empty_like(*this);
  copy(*this, result);
  return result;
}

Tensor& Tensor::copy_from(const Tensor& source) {
  copy(source.expand(shape_), *this);
  return *this;
}

Tensor& Tensor::fill(double value) {
  core::fill(*this, value);
  return *this;
}

void Tensor::throw_no_access(DType asked) const {
  if (!defined()) fail("tensor: data of an undefined tensor was asked for");
  if (!device().is_host())
    fail("tensor: the host cannot access {} {} on {}; a copy on the CPU is to(kCpu)", name(dtype_), shape_.str(),
         device().str());
  fail("tensor: data asked for as {}, the tensor is {} {}", name(asked), name(dtype_), shape_.str());
}

}  // namespace tandem::core
