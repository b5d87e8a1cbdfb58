#include "tandem/core/random.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "tandem/core/parallel.h"
#include "tandem/core/philox.h"

namespace tandem::core {
namespace {

// 53 random bits of two words, in [0, 1).
double unit_double(std::uint32_t high, std::uint32_t low) {
  return static_cast<double>((std::uint64_t{high} << 21) ^ (low >> 11)) * 0x1p-53;
}

template <class T>
T next_below(T value) {
  return std::nextafter(value, -std::numeric_limits<T>::infinity());
}
bfloat16 next_below(bfloat16 value) {
  const bool negative = value.bits >> 15;
  if (static_cast<std::uint16_t>(value.bits << 1) == 0) {
    value.bits = 0x8001;  // below zero: the negative number nearest to it
  } else {
    value.bits = static_cast<std::uint16_t>(negative ? value.bits + 1 : value.bits - 1);
  }
  return value;
}

// The largest T below `high`, but not below `low`.
template <class T>
T last_below(double low, double high) {
  using C = compute_t<T>;
  T value = static_cast<T>(static_cast<C>(high));
  while (static_cast<double>(static_cast<C>(value)) >= high) value = next_below(value);
  return static_cast<double>(static_cast<C>(value)) < low ? static_cast<T>(static_cast<C>(low)) : value;
}

void check_length(std::int64_t n) {
  if (n > std::int64_t{1} << 33) fail("random: {} numbers from a stream of 2^32 blocks, two of a block", n);
}

// Calls f(i, word0, word1) for elements [begin, end), in order: half a block each. `begin` is even.
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

// The same for [0, n), in parallel: a number depends on its position alone.
template <class F>
void for_each_pair_in_parallel(std::int64_t n, const PhiloxStream& stream, F&& f) {
  check_length(n);
  constexpr std::int64_t kChunk = 1 << 13;
  parallel_chunks(n, kChunk,
                  [&](std::int64_t, std::int64_t begin, std::int64_t end) { for_each_pair(begin, end, stream, f); });
}

void check_contiguous(const char* op, const Tensor& out) {
  if (!out.is_contiguous())
    fail("{}: needs a contiguous tensor, got shape {} with strides {}", op, out.shape().str(), out.strides().str());
}

}  // namespace

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

void fill_uniform(Tensor& out, double low, double high, const PhiloxStream& stream) {
  check_contiguous("fill_uniform", out);
  if (!std::isfinite(low) || !std::isfinite(high) || low > high)
    fail("fill_uniform: [{}, {}) is not a finite range", low, high);
  visit_floating("fill_uniform", out.dtype(), [&]<class T>() {
    using C = compute_t<T>;
    T* data = out.mutable_data<T>();
    const T last = last_below<T>(low, high);
    for_each_pair_in_parallel(out.numel(), stream, [&](std::int64_t i, std::uint32_t a, std::uint32_t b) {
      const double unit = sizeof(C) == 8 ? unit_double(a, b) : static_cast<double>(a >> 8) * 0x1p-24;
      const T value = static_cast<T>(static_cast<C>(low + (high - low) * unit));
      data[i] = static_cast<C>(value) < high ? value : last;  // rounding may have given `high` itself
    });
  });
}

void fill_normal(Tensor& out, double mean, double deviation, const PhiloxStream& stream) {
  check_contiguous("fill_normal", out);
  visit_floating("fill_normal", out.dtype(), [&]<class T>() {
    using C = compute_t<T>;
    T* data = out.mutable_data<T>();
    for_each_pair_in_parallel(out.numel(), stream, [&](std::int64_t i, std::uint32_t a, std::uint32_t b) {
      const double radius = std::sqrt(-2 * std::log((a + 0.5) * 0x1p-32));
      const double normal = radius * std::cos(2 * std::numbers::pi * (b * 0x1p-32));
      data[i] = static_cast<T>(static_cast<C>(mean + deviation * normal));
    });
  });
}

std::vector<std::int64_t> random_permutation(std::int64_t n, const PhiloxStream& stream) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  check_length(n);
  for_each_pair(0, n, stream, [&](std::int64_t k, std::uint32_t a, std::uint32_t b) {
    const std::int64_t last = n - 1 - k;
    // The remainder of 64 random bits: its bias is below n / 2^64.
    const std::uint64_t bits = (std::uint64_t{a} << 32) | b;
    const auto pick = static_cast<std::int64_t>(bits % static_cast<std::uint64_t>(last + 1));
    std::swap(order[static_cast<std::size_t>(last)], order[static_cast<std::size_t>(pick)]);
  });
  return order;
}

}  // namespace tandem::core
