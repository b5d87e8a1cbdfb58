// How the kernels of batch norm walk their tensors: in tiles of rows and channels where channels are adjacent in
// memory (`inner` is 1), else channel by channel in runs of `inner` adjacent values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tandem/core/cpu/blocks.h"
#include "tandem/core/cpu/strided.h"
#include "tandem/core/cpu/vectors.h"
#include "tandem/core/ops/batch_norm.h"

namespace tandem::core::cpu {

/// Rows [o, :] of channels that are summed in the precision of the data. Short enough for sums and moments to be exact
/// to about kRows roundings, whatever the data.
inline constexpr std::int64_t kRows = 128;

/// Channels [channel, channel + channels) of rows [row, row + rows).
struct Tile {
  std::int64_t chunk, row, rows, channel, channels;
  std::int64_t step;  ///< from row to row

  std::int64_t begin() const { return row * step + channel; }
};

inline std::int64_t chunks_of(const BatchNormLayout& layout) { return (layout.outer + kRows - 1) / kRows; }

/// f(tile) for tiles of kRows rows that cover everything, in parallel. They have all channels, since memory is fastest
/// from one end to the other, unless there would be few of them for the threads.
template <class F>
void for_each_tile(const BatchNormLayout& layout, F&& f) {
  if (layout.channels == 0) return;
  static_assert(kRowBlock % kLanes<float> == 0);  // the same channels in vectors for either width
  const std::int64_t width = chunks_of(layout) < 8 * num_threads() ? kRowBlock : layout.channels;
  const std::int64_t blocks = (layout.channels + width - 1) / width;
  const std::int64_t grain = std::max<std::int64_t>(1, kGrain / (kRows * std::min(layout.channels, width)));
  parallel_for(chunks_of(layout) * blocks, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin; at < end; ++at) {
      const std::int64_t chunk = at / blocks, row = chunk * kRows, channel = at % blocks * width;
      f(Tile{chunk, row, std::min(kRows, layout.outer - row), channel, std::min(width, layout.channels - channel),
             layout.channels});
    }
  });
}

/// f(begin, end) for ranges of channels, in parallel; `work` values are read for each channel.
template <class F>
void for_channels(std::int64_t channels, std::int64_t work, F&& f) {
  parallel_for(channels, std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(1, work)), f);
}

/// f(offset, n) for each block of at most kRowBlock adjacent values of channel c, in order.
template <class F>
void for_each_channel_block(const BatchNormLayout& layout, std::int64_t c, F&& f) {
  for (std::int64_t o = 0; o < layout.outer; ++o)
    for_each_block(layout.inner,
                   [&](std::int64_t begin, std::int64_t n) { f((o * layout.channels + c) * layout.inner + begin, n); });
}

/// f(c, offset) for each run of `inner` adjacent values, of channel c, in parallel.
template <class F>
void for_each_plane(const BatchNormLayout& layout, F&& f) {
  const std::int64_t grain = std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(1, layout.inner));
  parallel_for(layout.outer * layout.channels, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t run = begin; run < end; ++run) f(run % layout.channels, run * layout.inner);
  });
}

/// Room for two sums per chunk of rows and channel.
template <class C>
Tensor scratch_for(const BatchNormLayout& layout) {
  return Tensor::empty({chunks_of(layout), 2, layout.channels}, {.dtype = dtype_of<C>, .device = kCpu});
}

/// Rows that sums are taken of together: a sum is loaded and stored once for all of them.
inline constexpr int kRowsAtOnce = 4;

/// While vector i of kRowsAtOnce rows is summed, from `rows` on, fetches as much of the rows after the next ones, in
/// the order of memory: processors foresee that order, but not the one of four rows side by side.
template <class T>
[[gnu::always_inline]] inline void prefetch_rows(const T* rows, const Tile& tile, VectorIndex i) {
  if (tile.channels != tile.step) return;
  constexpr std::int64_t kSize = sizeof(T), kBytes = kRowsAtOnce * kLanes<compute_t<T>> * kSize;
  // As a number, for at the end it lies beyond the tensor.
  const auto next = reinterpret_cast<std::uintptr_t>(rows) +
                    static_cast<std::uintptr_t>(kSize * kRowsAtOnce * (2 * tile.step + i.first));
  for (std::uintptr_t byte = 0; byte < kBytes; byte += 64)
    __builtin_prefetch(reinterpret_cast<const char*>(next + byte));
}
template <class T>
void prefetch_rows(const T*, const Tile&, std::int64_t) {}

/// One number for all of a run of values, where a tile has an array.
template <class C>
struct Repeated {
  C value;
};
template <class C, class Index>
[[gnu::always_inline]] inline C at(Repeated<C> number, Index) {
  return number.value;
}

/// The kernels' one formula, so that backward finds the ReLU's mask that forward had. Of numbers or vectors.
template <class X, class C>
[[gnu::always_inline]] inline X normalized(X x, C mean, C scale, C shift) {
  return (x - mean) * scale + shift;
}

/// The numbers of the formula, by channel.
template <class C>
class Affines {
 public:
  explicit Affines(const BatchNormOperands& given)
      : means_(given.mean.data<C>()),
        inv_stds_(given.inv_std.data<C>()),
        scales_(inv_stds_, inv_stds_ + given.layout.channels),
        shifts_(scales_.size(), C{0}) {
    if (const C* weights = given.weight.defined() ? given.weight.data<C>() : nullptr)
      for (std::size_t c = 0; c < scales_.size(); ++c) scales_[c] *= weights[c];
    if (given.bias.defined()) std::copy_n(given.bias.data<C>(), shifts_.size(), shifts_.begin());
  }

  const C* means() const { return means_; }
  const C* inv_stds() const { return inv_stds_; }
  const C* scales() const { return scales_.data(); }
  const C* shifts() const { return shifts_.data(); }

 private:
  const C *means_, *inv_stds_;
  std::vector<C> scales_, shifts_;
};

}  // namespace tandem::core::cpu
