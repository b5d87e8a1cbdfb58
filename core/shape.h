// Shapes and strides: a short list of integers that lives inside its owner (no heap).
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "tandem/core/error.h"

namespace tandem::core {

/// Most dimensions that a tensor may have.
inline constexpr int kMaxRank = 6;

/// Up to kMaxRank 64-bit integers. As `Shape` they are sizes, as `Strides` distances in elements.
class Dims {
 public:
  Dims() = default;
  Dims(std::initializer_list<std::int64_t> values) : Dims(std::span(values.begin(), values.size())) {}
  explicit Dims(std::span<const std::int64_t> values) : rank_(check_rank(values.size())) {
    for (int i = 0; i < rank_; ++i) values_[i] = values[static_cast<std::size_t>(i)];
  }
  /// `rank` copies of `value`.
  static Dims filled(int rank, std::int64_t value) {
    Dims dims;
    dims.rank_ = check_rank(static_cast<std::size_t>(rank));
    for (int i = 0; i < rank; ++i) dims.values_[i] = value;
    return dims;
  }

  int rank() const { return rank_; }
  bool empty() const { return rank_ == 0; }
  std::int64_t operator[](int i) const { return values_[i]; }
  std::int64_t& operator[](int i) { return values_[i]; }
  std::int64_t back() const { return values_[rank_ - 1]; }
  void push_back(std::int64_t value) {
    check_rank(static_cast<std::size_t>(rank_) + 1);
    values_[rank_++] = value;
  }
  const std::int64_t* begin() const { return values_.data(); }
  const std::int64_t* end() const { return values_.data() + rank_; }

  bool operator==(const Dims& other) const {
    if (rank_ != other.rank_) return false;
    for (int i = 0; i < rank_; ++i)
      if (values_[i] != other.values_[i]) return false;
    return true;
  }

  /// "[64, 1, 28, 28]"; a scalar's is "[]".
  std::string str() const;

 private:
  static int check_rank(std::size_t rank) {
    if (rank > kMaxRank) fail("shape: {} dimensions, at most {} are supported", rank, kMaxRank);
    return static_cast<int>(rank);
  }

  std::array<std::int64_t, kMaxRank> values_;  // the first rank_ of them are set
  int rank_ = 0;
};

using Shape = Dims;
using Strides = Dims;

/// Product of the sizes; 1 for a scalar. Throws where a size is negative or the product overflows 64 bits.
std::int64_t numel(const Shape& shape);

/// Row-major ("C") strides: the last dimension is adjacent in memory.
Strides contiguous_strides(const Shape& shape);

/// Strides of an (N, C, H, W) tensor whose memory order is N, H, W, C.
Strides channels_last_strides(const Shape& shape);

/// `dim` counted from the front, negative values from the back; throws naming `op` where there is no such dimension.
int normalize_dim(const char* op, int dim, int rank);

/// NumPy's rule: align at the back, sizes must be equal or 1. Throws naming `op` and both shapes.
Shape broadcast_shape(const char* op, const Shape& a, const Shape& b);

}  // namespace tandem::core
