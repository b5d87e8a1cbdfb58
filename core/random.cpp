#include "tandem/core/random.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "tandem/core/error.h"
#include "tandem/core/philox.h"

namespace tandem::core {

std::array<std::uint32_t, 4> PhiloxStream::block(std::uint32_t index) const {
  std::array<std::uint32_t, 4> block;
  words(index, block.data(), 4);
  return block;
}

void PhiloxStream::words(std::uint32_t first_block, std::uint32_t* out, std::int64_t n) const {
  for (std::int64_t i = 0; i < n; i += 4 * philox::kLanes) {
    const auto blocks = philox::blocks(*this, std::uint64_t{first_block} + static_cast<std::uint64_t>(i / 4));
    const std::int64_t count = std::min<std::int64_t>(n - i, 4 * philox::kLanes);
    for (std::int64_t k = 0; k < count; ++k)
      out[i + k] = static_cast<std::uint32_t>(blocks[static_cast<std::size_t>(k % 4)][k / 4]);
  }
}

PhiloxStream RandomContext::stream(std::uint32_t op) const {
  if (op >> 16 || shard >> 16) fail("random: operator {} and shard {} must be below 65536", op, shard);
  return {.key = {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)},
          .counter = {(shard << 16) | op, step, epoch}};
}

PhiloxStream Generator::next() {
  // No training step has this epoch and step, so these streams are nobody else's.
  return {.key = {static_cast<std::uint32_t>(seed_), static_cast<std::uint32_t>(seed_ >> 32)},
          .counter = {handed_out_++, ~0u, ~0u}};
}

std::vector<std::int64_t> random_permutation(std::int64_t n, const PhiloxStream& stream) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  philox::check_pairs("random_permutation", n);
  philox::for_each_pair(0, n, stream, [&](std::int64_t k, std::uint32_t a, std::uint32_t b) {
    const std::int64_t last = n - 1 - k;
    // The remainder of 64 random bits: its bias is below n / 2^64.
    const std::uint64_t bits = (std::uint64_t{a} << 32) | b;
    const auto pick = static_cast<std::int64_t>(bits % static_cast<std::uint64_t>(last + 1));
    std::swap(order[static_cast<std::size_t>(last)], order[static_cast<std::size_t>(pick)]);
  });
  return order;
}

}  // namespace tandem::core
