#include "tandem/core/ops/dropout.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "tandem/core/ops/cpu/strided.h"
#include "tandem/core/philox.h"

namespace tandem::core::cpu {
namespace {

constexpr int kGroup = 4 * philox::kLanes;  // words (elements) that are drawn together

// keep[i] = word i of the blocks from `first` on >= threshold, for kGroup words. Mask bytes are transposed into word
// order, not words.
void draw(const PhiloxStream& stream, std::uint64_t first, std::uint64_t threshold, std::uint8_t* keep) {
  // (word - threshold) borrows, so bit 63 is set, where word < threshold.
  const auto kept = [threshold](const philox::Lanes& word) {
    return (((word & philox::kWord) - threshold) >> 63) ^ 1u;
  };
  const auto [a, b, c, d] = philox::blocks(stream, first);
  const philox::Lanes bytes = kept(a) | (kept(b) << 8) | (kept(c) << 16) | (kept(d) << 24);
  for (int lane = 0; lane < philox::kLanes; ++lane) {
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
