// What the kernels that drop elements share: which are kept, and how to zero the others without a branch.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "tandem/core/cpu/vectors.h"
#include "tandem/core/dtype.h"
#include "tandem/core/philox.h"

namespace tandem::core::cpu {

/// How dropout decides: a word at or above `threshold` keeps its element, which is then multiplied by `scale`.
struct DropoutRule {
  std::uint64_t threshold;
  double scale;

  // With p = 1 nothing is kept, so any finite factor will do.
  explicit DropoutRule(double p)
      : threshold(static_cast<std::uint64_t>(std::ceil(p * 0x1p32))), scale(p < 1 ? 1 / (1 - p) : 0) {}
};

inline constexpr int kDropoutGroup = 4 * philox::kLanes;  // words (elements) that are drawn together

/// keep[i] = word i of the blocks from `first` on >= threshold, for kDropoutGroup words. Mask bytes are transposed into
/// word order, not words.
inline void draw_group(const PhiloxStream& stream, std::uint64_t first, std::uint64_t threshold, std::uint8_t* keep) {
  static_assert(std::endian::native == std::endian::little, "mask bytes are packed lowest first");
  using Bytes = std::uint32_t __attribute__((vector_size(4 * philox::kLanes)));  // those of a block's four words
  // (word - threshold) borrows, so bit 63 is set, where word < threshold.
  const auto dropped = [threshold](const philox::Lanes& word) { return ((word & philox::kWord) - threshold) >> 63; };
  const auto [a, b, c, d] = philox::blocks(stream, first);
  const philox::Lanes kept = (dropped(a) | dropped(b) << 8 | dropped(c) << 16 | dropped(d) << 24) ^ 0x01010101u;
  const Bytes bytes = __builtin_convertvector(kept, Bytes);
  std::memcpy(keep, &bytes, sizeof(bytes));
}

/// keep[i] = word first + i >= threshold, for n words. Cheapest where `first` is a multiple of four and n one of
/// kDropoutGroup.
inline void draw_kept(const PhiloxStream& stream, std::uint64_t first, std::int64_t n, std::uint64_t threshold,
                      std::uint8_t* keep) {
  std::int64_t skip = static_cast<std::int64_t>(first % 4);  // words of the first block that lie before `first`
  for (std::uint64_t block = first / 4; n > 0; block += philox::kLanes) {
    const std::int64_t count = std::min(n, kDropoutGroup - skip);
    if (count == kDropoutGroup) {
      draw_group(stream, block, threshold, keep);
    } else {
      std::uint8_t group[kDropoutGroup];
      draw_group(stream, block, threshold, group);
      std::memcpy(keep, group + skip, static_cast<std::size_t>(count));
    }
    keep += count;
    n -= count;
    skip = 0;
  }
}

/// x where keep is 1, else 0, also for a NaN: by an AND with the bits, because a condition keeps the compiler from
/// using vectors for bfloat16.
template <class C>
[[gnu::always_inline]] inline C kept_or_zero(C x, std::uint8_t keep) {
  using Bits = std::conditional_t<sizeof(C) == 8, std::uint64_t, std::uint32_t>;
  return std::bit_cast<C>(std::bit_cast<Bits>(x) & (Bits{0} - Bits{keep}));
}

/// The same of element or vector i.
template <class C>
[[gnu::always_inline]] inline C kept_or_zero(C x, const std::uint8_t* keep, std::int64_t i) {
  return kept_or_zero(x, keep[i]);
}
template <class V>
[[gnu::always_inline]] inline V kept_or_zero(const V& x, const std::uint8_t* keep, VectorIndex i) {
  using C = std::remove_cvref_t<decltype(x[0])>;
  using Bits = Vector<std::conditional_t<sizeof(C) == 8, std::uint64_t, std::uint32_t>>;
  typedef std::uint8_t Bytes __attribute__((vector_size(kLanes<C>)));
  Bytes bytes;
  std::memcpy(&bytes, keep + i.first, sizeof(bytes));
  return (V)((Bits)x & -__builtin_convertvector(bytes, Bits));
}

}  // namespace tandem::core::cpu
