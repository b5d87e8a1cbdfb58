// Random numbers without a history: Philox4x32-10, a function from (key, counter) to 128 random bits.
//
// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
// What is drawn depends only on where it is drawn (RandomContext) and for what (operator, element), so a resumed run
// draws what the undisturbed one would have, any number of threads draws the same, and so will a GPU. Tensors are
// filled in core/ops/random_fill.h.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace tandem::core {

/// One stream of random numbers: 2^32 blocks of four 32-bit words.
struct PhiloxStream {
  std::array<std::uint32_t, 2> key{};
  std::array<std::uint32_t, 3> counter{};  ///< the counter's upper words; the lowest is the block's index

  /// Block `index` of the stream.
  std::array<std::uint32_t, 4> block(std::uint32_t index) const;
  /// Word i is word i % 4 of block i / 4. Writes words [4 * first_block, 4 * first_block + n) to `out`.
  void words(std::uint32_t first_block, std::uint32_t* out, std::int64_t n) const;
};

/// Where in a training run numbers are drawn. Passed to what draws (Dropout, initialisation, augmentation), never
/// global.
struct RandomContext {
  std::uint64_t seed = 0;
  std::uint32_t epoch = 0;
  std::uint32_t step = 0;  ///< update
  /// Which part of the global batch: (micro-step of the update) x (world size) + rank; below 2^16.
  std::uint32_t shard = 0;

  /// `op` tells apart the places that draw at one step; below 2^16.
  PhiloxStream stream(std::uint32_t op) const;
};

/// Hands out one stream after another, for what is drawn once, in a fixed order: initial weights.
class Generator {
 public:
  explicit Generator(std::uint64_t seed = 0) : seed_(seed) {}
  PhiloxStream next();

 private:
  std::uint64_t seed_;
  std::uint32_t handed_out_ = 0;
};

/// The numbers 0 .. n-1 in random order (Fisher and Yates, from the back).
std::vector<std::int64_t> random_permutation(std::int64_t n, const PhiloxStream& stream);

}  // namespace tandem::core
