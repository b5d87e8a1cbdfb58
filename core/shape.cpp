#include "tandem/core/shape.h"

#include <algorithm>

namespace tandem::core {

std::string Dims::str() const {
  std::string text = "[";
  for (int i = 0; i < rank_; ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(values_[i]);
  }
  return text + "]";
}

std::int64_t numel(const Shape& shape) {
  std::int64_t product = 1;  // of the sizes but zero, which strides are made of
  bool is_empty = false;
  for (const std::int64_t size : shape) {
    if (size < 0) fail("shape: negative size in {}", shape.str());
    is_empty |= size == 0;
    if (__builtin_mul_overflow(product, std::max<std::int64_t>(size, 1), &product))
      fail("shape: number of elements overflows in {}", shape.str());
  }
  return is_empty ? 0 : product;
}

Strides contiguous_strides(const Shape& shape) {
  Strides strides = Dims::filled(shape.rank(), 1);
  for (int i = shape.rank() - 2; i >= 0; --i) strides[i] = strides[i + 1] * std::max<std::int64_t>(shape[i + 1], 1);
  return strides;
}

Strides channels_last_strides(const Shape& shape) {
  if (shape.rank() != 4) fail("channels_last: needs 4 dimensions (N, C, H, W), got {}", shape.str());
  const auto at_least_one = [](std::int64_t n) { return std::max<std::int64_t>(n, 1); };
  const std::int64_t c = at_least_one(shape[1]), h = at_least_one(shape[2]), w = at_least_one(shape[3]);
  return {h * w * c, 1, w * c, c};
}

int normalize_dim(const char* op, int dim, int rank) {
  if (dim < -rank || dim >= rank) fail("{}: no dimension {} in a tensor of {} dimensions", op, dim, rank);
  return dim < 0 ? dim + rank : dim;
}

Shape broadcast_shape(const char* op, const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  Shape result = Dims::filled(rank, 1);
  for (int i = 1; i <= rank; ++i) {
    const std::int64_t size_a = i <= a.rank() ? a[a.rank() - i] : 1;
    const std::int64_t size_b = i <= b.rank() ? b[b.rank() - i] : 1;
    if (size_a != size_b && size_a != 1 && size_b != 1)
      fail("{}: shapes {} and {} do not broadcast: sizes {} and {} at dimension {} from the back", op, a.str(), b.str(),
           size_a, size_b, i);
    result[rank - i] = size_a == 1 ? size_b : size_a;
  }
  return result;
}

}  // namespace tandem::core
