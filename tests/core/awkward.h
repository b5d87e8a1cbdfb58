// Tensors of every awkward shape and layout, and the naive references that operators are compared with.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "tandem/core/random.h"
#include "tandem/core/tensor.h"

namespace tandem::core::testing {

/// Uniform in [low, high), rounded to `dtype`, contiguous.
inline Tensor random_tensor(const Shape& shape, DType dtype, std::uint64_t seed = 1, double low = -2, double high = 2) {
  Tensor values = Tensor::empty(shape, {.dtype = DType::float64});
  fill_uniform(values, low, high, RandomContext{.seed = seed}.stream(1));
  return values.to(dtype);
}

/// Scalars, empty ones, contiguous, transposed, sliced, stepped, repeated, channels-last, and one large enough for two
/// threads.
inline std::vector<Tensor> awkward_tensors(DType dtype, double low = -2, double high = 2) {
  std::uint64_t seed = 10;
  const auto make = [&](const Shape& shape) { return random_tensor(shape, dtype, ++seed, low, high); };
  return {make({}),
          make({1}),
          make({0}),
          make({3, 0, 2}),
          make({7}),
          make({37}).slice(0, 3, 36, 2),
          make({1, 1, 5}),
          make({5, 67}),
          make({67, 5}).transpose(0, 1),
          make({6, 40}).slice(1, 3, 38),
          make({6, 40}).slice(0, 1, 6, 2).slice(1, 0, 40, 3),
          make({4, 1}).expand({4, 9}),
          make({9}).expand({3, 9}),
          make({2, 3, 4, 5}),
          make({2, 3, 4, 5}).contiguous(MemoryFormat::channels_last),
          make({2, 33, 3, 5}).contiguous(MemoryFormat::channels_last).slice(1, 1, 32),
          make({2, 3, 4, 5}).permute({3, 0, 2, 1}),
          make({2, 1, 3, 2, 1, 2}),
          make({300, 257})};
}

inline std::string describe(const Tensor& x) {
  return std::string(name(x.dtype())) + " " + x.shape().str() + " strides " + x.strides().str();
}

/// Relative spacing of numbers of a dtype.
inline double epsilon(DType dtype) {
  if (dtype == DType::bfloat16) return 0x1p-8;
  return dtype == DType::float32 ? 0x1p-23 : 0x1p-52;
}

/// Flat index into `from` of what stands at flat index `i` of `to` after broadcasting.
inline std::size_t broadcast_index(std::int64_t i, const Shape& from, const Shape& to) {
  std::int64_t index = 0, weight = 1;
  for (int d = to.rank() - 1; d >= 0; --d) {
    const std::int64_t here = i % to[d];
    i /= to[d];
    const int own = d - (to.rank() - from.rank());
    if (own < 0) continue;
    if (from[own] != 1) index += here * weight;
    weight *= from[own];
  }
  return static_cast<std::size_t>(index);
}

/// Both NaN, the same infinity, or no further apart than `tolerance`.
inline bool close(double got, double wanted, double tolerance) {
  if (std::isnan(wanted)) return std::isnan(got);
  if (std::isinf(wanted) || std::isinf(got)) return got == wanted;
  return std::abs(got - wanted) <= tolerance;
}

}  // namespace tandem::core::testing

/// Expects that `statement` throws Error with a message that contains `text`.
#define TANDEM_EXPECT_ERROR(statement, text)                                              \
  do {                                                                                    \
    try {                                                                                 \
      statement;                                                                          \
      ADD_FAILURE() << #statement " did not throw";                                       \
    } catch (const ::tandem::core::Error& error) {                                        \
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what(); \
    }                                                                                     \
  } while (false)
