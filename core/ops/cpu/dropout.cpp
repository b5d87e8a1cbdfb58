#include "tandem/core/ops/dropout.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "tandem/core/ops/cpu/strided.h"

namespace tandem::core::cpu {
namespace {

// Philox4x32-10 (core/random.h), which must agree with PhiloxStream::block word for word: here shaped for speed. A
// 32-bit word lives in a 64-bit lane, whose upper half is garbage between rounds, so that one multiplication gives both
// halves of the product; and the transposition into word order happens on mask bytes, not on words.
constexpr int kLanes = 16, kGroup = 4 * kLanes;  // blocks, and words (elements), per call
using Lanes = std::uint64_t __attribute__((vector_size(8 * kLanes)));
constexpr std::uint64_t kLow = 0xffffffffu;

// keep[i] = word i of the blocks from `first` on >= threshold, for kGroup words.
void draw(const PhiloxStream& stream, std::uint64_t first, std::uint64_t threshold, std::uint8_t* keep) {
  Lanes a = (Lanes{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15} + first) & kLow;
  Lanes b = Lanes{} + stream.counter[0], c = Lanes{} + stream.counter[1], d = Lanes{} + stream.counter[2];
  std::uint32_t key0 = stream.key[0], key1 = stream.key[1];
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    const Lanes product0 = (a & kLow) * 0xD2511F53u, product1 = (c & kLow) * 0xCD9E8D57u;
    a = (product1 >> 32) ^ b ^ key0;
    b = product1;
    c = (product0 >> 32) ^ d ^ key1;
    d = product0;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  // (word - threshold) borrows, so bit 63 is set, where word < threshold.
  const auto kept = [threshold](const Lanes& word) { return (((word & kLow) - threshold) >> 63) ^ 1u; };
  const Lanes bytes = kept(a) | (kept(b) << 8) | (kept(c) << 16) | (kept(d) << 24);
  for (int lane = 0; lane < kLanes; ++lane) {
    const auto four = static_cast<std::uint32_t>(bytes[lane]);
    std::memcpy(keep + 4 * lane, &four, 4);
  }
}

// The product where keep is 1, else 0: by an AND with the bits, because a condition keeps the compiler from using
// vectors for bfloat16.
template <class T>
T scaled_or_zero(T x, std::uint8_t keep, compute_t<T> scale) {
  using C = compute_t<T>;
  using Bits = std::conditional_t<sizeof(C) == 8, std::uint64_t, std::uint32_t>;
  const Bits bits = std::bit_cast<Bits>(static_cast<C>(x) * scale) & (Bits{0} - Bits{keep});
  return static_cast<T>(std::bit_cast<C>(bits));
}

template <class T>
void apply(const T* x, const std::uint8_t* keep, compute_t<T> scale, T* out, std::int64_t n) {
#pragma omp simd  // out may be x itself
  for (std::int64_t i = 0; i < n; ++i) out[i] = scaled_or_zero(x[i], keep[i], scale);
}

// With p = 1 nothing is kept, so any finite factor will do.
double factor(double p) { return p < 1 ? 1 / (1 - p) : 0; }

}  // namespace

void dropout(const Tensor& x, double p, const PhiloxStream& stream, Tensor& output, Tensor& mask) {
  static_assert(std::endian::native == std::endian::little, "draw() packs mask bytes lowest first");
  const auto threshold = static_cast<std::uint64_t>(std::ceil(p * 0x1p32));
  std::uint8_t* keep = mask.mutable_data<std::uint8_t>();
  constexpr std::int64_t kBlock = 16 * kGroup;  // the mask of a block is still in L1 when it is applied
  const std::int64_t n = x.numel();
  visit_floating("dropout", x.dtype(), [&]<class T>() {
    const T* in = x.data<T>();
    T* out = output.mutable_data<T>();
    const auto scale = static_cast<compute_t<T>>(factor(p));
    const std::int64_t blocks = (n + kBlock - 1) / kBlock;
    parallel_for(blocks, 8, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first * kBlock; i < std::min(n, last * kBlock); i += kBlock) {
        const std::int64_t count = std::min(kBlock, n - i);
        std::int64_t k = 0;
        for (; k + kGroup <= count; k += kGroup)
          draw(stream, static_cast<std::uint64_t>(i + k) / 4, threshold, keep + i + k);
        if (k < count) {
          std::uint8_t rest[kGroup];
          draw(stream, static_cast<std::uint64_t>(i + k) / 4, threshold, rest);
          std::memcpy(keep + i + k, rest, static_cast<std::size_t>(count - k));
        }
        apply(in + i, keep + i, scale, out + i, count);
      }
    });
  });
}

void dropout_backward(const Tensor& dy, const Tensor& mask, double p, Tensor& dx) {
  const auto plan = make_plan<3>(dx.shape(), {&dx.strides(), &mask.strides(), &dy.strides()});
  const std::uint8_t* keep = mask.data<std::uint8_t>();
  visit_floating("dropout_backward", dy.dtype(), [&]<class T>() {
    const T* in = dy.data<T>();
    T* out = dx.mutable_data<T>();
    const auto scale = static_cast<compute_t<T>>(factor(p));
    for_each_run(plan, [&](const auto& at, std::int64_t n, const auto& step) {
      if (step[0] == 1 && step[1] == 1 && step[2] == 1) return apply(in + at[2], keep + at[1], scale, out + at[0], n);
      for (std::int64_t i = 0; i < n; ++i)
        out[at[0] + i * step[0]] = scaled_or_zero(in[at[2] + i * step[2]], keep[at[1] + i * step[1]], scale);
    });
  });
}

}  // namespace tandem::core::cpu
