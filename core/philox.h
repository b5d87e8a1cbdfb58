// The rounds of Philox4x32-10 on many counters at once; what uses it draws by stream (core/random.h).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "tandem/core/error.h"
#include "tandem/core/random.h"

namespace tandem::core::philox {

/// Blocks computed together. A 32-bit word lives in a 64-bit lane, so that one multiplication gives both halves of the
/// product.
inline constexpr int kLanes = 16;
using Lanes = std::uint64_t __attribute__((vector_size(8 * kLanes)));
inline constexpr std::uint64_t kWord = 0xffffffffu;

/// Word w of blocks first, first + 1, ..., first + kLanes - 1 in the lower halves of [w]; the upper halves are garbage.
inline std::array<Lanes, 4> blocks(const PhiloxStream& stream, std::uint64_t first) {
  constexpr std::uint32_t kMultiplier0 = 0xD2511F53u, kMultiplier1 = 0xCD9E8D57u;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;  // golden ratio, sqrt(3) - 1
  Lanes a = (Lanes{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15} + first) & kWord;
  Lanes b = Lanes{} + stream.counter[0], c = Lanes{} + stream.counter[1], d = Lanes{} + stream.counter[2];
  std::uint32_t key0 = stream.key[0], key1 = stream.key[1];
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    const Lanes product0 = (a & kWord) * kMultiplier0, product1 = (c & kWord) * kMultiplier1;
    a = (product1 >> 32) ^ b ^ key0;
    b = product1;
    c = (product0 >> 32) ^ d ^ key1;
    d = product0;
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return {a, b, c, d};
}

/// Throws Error if a stream has not so many pairs of words.
inline void check_pairs(const char* op, std::int64_t n) {
  if (n > std::int64_t{1} << 33) fail("{}: {} numbers from a stream of 2^32 blocks, two of a block", op, n);
}

/// Calls f(i, word0, word1) for elements [begin, end), in order: half a block each. `begin` is even.
template <class F>
void for_each_pair(std::int64_t begin, std::int64_t end, const PhiloxStream& stream, F&& f) {
  constexpr std::int64_t kAtOnce = 256;
  std::uint32_t words[2 * kAtOnce];
  for (std::int64_t i = begin; i < end; i += kAtOnce) {
    const std::int64_t count = std::min(kAtOnce, end - i);
    stream.words(static_cast<std::uint32_t>(i / 2), words, 2 * count);
    for (std::int64_t k = 0; k < count; ++k) f(i + k, words[2 * k], words[2 * k + 1]);
  }
}

}  // namespace tandem::core::philox
