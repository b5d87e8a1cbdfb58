// Vectors of 64 bytes in GCC's vector extension, which every target can compile: for kernels that say themselves what
// goes into a register, where the compiler would not find out or would take more instructions.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#ifdef __AVX512BF16__
#include <immintrin.h>
#endif

#include "tandem/core/dtype.h"

namespace tandem::core::cpu {

template <class C>
inline constexpr std::int64_t kLanes = 64 / static_cast<std::int64_t>(sizeof(C));

template <class C>
struct VectorOf {
  typedef C type __attribute__((vector_size(64)));
};
template <class C>
using Vector = typename VectorOf<C>::type;

typedef std::uint16_t HalfWords __attribute__((vector_size(32)));

/// Rounded to nearest, ties to even; NaN stays NaN. What bfloat16_bits does where the processor has no instruction.
[[gnu::always_inline]] inline HalfWords bfloat16_bits_by_integers(const Vector<float>& x) {
  const auto word = (Vector<std::uint32_t>)x, upper = word >> 16;
  const auto is_nan = (word & 0x7fffffffu) > 0x7f800000u;
  return __builtin_convertvector(is_nan ? upper | 0x40u : (word + 0x7fffu + (upper & 1u)) >> 16, HalfWords);
}
/// The same; but the instruction makes zeros of subnormal numbers (below 1.2e-38), as the processor's products do.
[[gnu::always_inline]] inline HalfWords bfloat16_bits(const Vector<float>& x) {
#ifdef __AVX512BF16__
  return (HalfWords)_mm512_cvtneps_pbh((__m512)x);
#else
  return bfloat16_bits_by_integers(x);
#endif
}

/// The largest number that is 0 when it has been stored as a T: what is stored of a value above it is positive.
template <class T>
inline constexpr compute_t<T> kRoundsToZero = 0;
template <>
#ifdef __AVX512BF16__
inline constexpr float kRoundsToZero<bfloat16> = 0x0.fffffep-126F;  // the largest subnormal one
#else
inline constexpr float kRoundsToZero<bfloat16> = 0x1p-134F;  // half of the smallest bfloat16
#endif

/// Two bfloat16 in each lane, `lower` in the lower half.
[[gnu::always_inline]] inline Vector<std::uint32_t> paired(const HalfWords& lower, const HalfWords& upper) {
  using Words = Vector<std::uint32_t>;
  return __builtin_convertvector(lower, Words) | __builtin_convertvector(upper, Words) << 16;
}

/// kLanes<compute_t<T>> elements, in the type that they are computed in.
template <class T>
[[gnu::always_inline]] inline Vector<compute_t<T>> load_vector(const T* from) {
  if constexpr (std::is_same_v<T, bfloat16>) {
    HalfWords bits;
    std::memcpy(&bits, from, sizeof(bits));
    return (Vector<float>)(__builtin_convertvector(bits, Vector<std::uint32_t>) << 16);
  } else {
    static_assert(std::is_same_v<T, compute_t<T>>);
    Vector<T> to;
    std::memcpy(&to, from, sizeof(to));
    return to;
  }
}

/// The other way, rounded.
template <class T>
[[gnu::always_inline]] inline void store_vector(const Vector<compute_t<T>>& from, T* to) {
  if constexpr (std::is_same_v<T, bfloat16>) {
    const auto bits = bfloat16_bits(from);
    std::memcpy(static_cast<void*>(to), &bits, sizeof(bits));
  } else {
    static_assert(std::is_same_v<T, compute_t<T>>);
    std::memcpy(to, &from, sizeof(from));
  }
}

/// Stands for kLanes elements from `first` on where an index stands for one: what is written for either, with at(),
/// put(), arithmetic and comparisons, computes in vectors.
struct VectorIndex {
  std::int64_t first;
};
template <class T>
[[gnu::always_inline]] inline compute_t<T> at(const T* x, std::int64_t i) {
  return static_cast<compute_t<T>>(x[i]);
}
template <class T>
[[gnu::always_inline]] inline Vector<compute_t<T>> at(const T* x, VectorIndex i) {
  return load_vector(x + i.first);
}
template <class T>
[[gnu::always_inline]] inline void put(T* x, VectorIndex i, const Vector<compute_t<T>>& value) {
  store_vector(value, x + i.first);
}
/// Rounds as in a vector, so that results do not depend on where a run ends.
template <class T>
[[gnu::always_inline]] inline void put(T* x, std::int64_t i, compute_t<T> value) {
  if constexpr (std::is_same_v<T, bfloat16>)
    x[i].bits = bfloat16_bits(Vector<float>{value})[0];
  else
    x[i] = value;
}

/// A sum of what for_each_vector gives: few values (kRowBlock), for they are added in their own precision.
template <class C>
class VectorSum {
 public:
  [[gnu::always_inline]] void add(const Vector<C>& values) { lanes_ += values; }
  [[gnu::always_inline]] void add(C value) { rest_ += value; }
  double total() const {
    C sum = rest_;
    for (std::int64_t lane = 0; lane < kLanes<C>; ++lane) sum += lanes_[lane];
    return static_cast<double>(sum);
  }

 private:
  Vector<C> lanes_{};
  C rest_ = 0;
};

/// f(i) for all of [0, n): vectors, and then the elements that are left.
template <class C, class F>
[[gnu::always_inline]] inline void for_each_vector(std::int64_t n, F&& f) {
  std::int64_t i = 0;
  for (; i + kLanes<C> <= n; i += kLanes<C>) f(VectorIndex{i});
  for (; i < n; ++i) f(i);
}

}  // namespace tandem::core::cpu
