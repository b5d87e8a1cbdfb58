// How the kernels of batch norm walk their tensors: in tiles of rows and channels where channels are adjacent in
// memory (`inner` is 1), else channel by channel in runs of `inner` adjacent values.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tandem/core/ops/batch_norm.h"
#include "tandem/core/ops/cpu/softmax.h"
#include "tandem/core/ops/cpu/strided.h"

namespace tandem::core::cpu {

/// Rows [o, :] of channels that are summed in the precision of the data. Short enough for sums and moments to be exact
/// to about kRows roundings, whatever the data.
inline constexpr std::int64_t kRows = 128;

/// Channels [channel, channel + channels) of rows [row, row + rows); its sums per channel are in L1, itself in L2.
struct Tile {
  std::int64_t chunk, row, rows, channel, channels;
  std::int64_t step;  ///< from row to row

  std::int64_t begin() const { return row * step + channel; }
};

inline std::int64_t chunks_of(const BatchNormLayout& layout) { return (layout.outer + kRows - 1) / kRows; }

/// f(tile) for tiles of kRows x kRowBlock that cover everything, in parallel.
template <class F>
void for_each_tile(const BatchNormLayout& layout, F&& f) {
  const std::int64_t blocks = (layout.channels + kRowBlock - 1) / kRowBlock;
  const std::int64_t grain =
      std::max<std::int64_t>(1, kGrain / (kRows * std::clamp<std::int64_t>(layout.channels, 1, kRowBlock)));
  parallel_for(chunks_of(layout) * blocks, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin; at < end; ++at) {
      const std::int64_t chunk = at / blocks, row = chunk * kRows, channel = at % blocks * kRowBlock;
      f(Tile{chunk, row, std::min(kRows, layout.outer - row), channel, std::min(kRowBlock, layout.channels - channel),
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

/// Room for two float64 numbers per chunk of rows and channel.
inline Tensor scratch_for(const BatchNormLayout& layout) {
  return Tensor::empty({chunks_of(layout), 2, layout.channels}, {.dtype = DType::float64});
}

/// One number for all of a run of values, indexed as the array that a tile has instead.
template <class C>
struct Repeated {
  C value;
  C operator[](std::int64_t) const { return value; }
};

/// The kernels' one formula, so that backward finds the ReLU's mask that forward had.
template <class C>
[[gnu::always_inline]] inline C normalized(C x, C mean, C scale, C shift) {
  return (x - mean) * scale + shift;
}

/// The numbers of the formula, by channel.
template <class C>
class Affines {
 public:
  explicit Affines(const BatchNormOperands& given)
      : means_(given.mean.data<C>()),
        inv_stds_(given.inv_std.data<C>()),
        weights_(given.weight.defined() ? given.weight.data<C>() : nullptr),
        biases_(given.bias.defined() ? given.bias.data<C>() : nullptr) {}

  const C* means() const { return means_; }
  C inv_std(std::int64_t c) const { return inv_stds_[c]; }
  C scale(std::int64_t c) const { return inv_stds_[c] * (weights_ ? weights_[c] : C{1}); }
  C shift(std::int64_t c) const { return biases_ ? biases_[c] : C{0}; }

 private:
  const C *means_, *inv_stds_, *weights_, *biases_;
};

}  // namespace tandem::core::cpu
