// Batch norm backwards: the sums over dz in one pass, dx in another. Where statistics are constants, dx does not wait
// for the sums, and one pass does both.
#include "tandem/core/ops/batch_norm.h"

#include "tandem/core/cpu/row_sums.h"
#include "tandem/core/ops/cpu/batch_norm_walk.h"

namespace tandem::core::kernels {
using namespace cpu;
namespace {

// How dz = dy [y > 0] is found.
enum class Mask { none, from_input, from_output };

// y and dz are used where the mask is from the output, else they are some valid address.
template <class T>
struct Memory {
  const T *x, *dy, *y;
  T *dz, *dx;
};

// dz of a value, or of a vector of them; `y` is read where the mask is made of it.
template <Mask mask, class T, class X, class C, class Index>
[[gnu::always_inline]] inline X masked(X dy, X x, const T* y, Index i, C mean, C scale, C shift) {
  if constexpr (mask == Mask::from_input) return normalized(x, mean, scale, shift) > kRoundsToZero<T> + X{} ? dy : X{};
  if constexpr (mask == Mask::from_output) return at(y, i) > X{} ? dy : X{};
  return dy;
}

template <Mask mask, class T>
class Backward {
  using C = compute_t<T>;

 public:
  Backward(const BatchNormOperands& given, const Memory<T>& memory)
      : layout_(given.layout),
        affine_(given),
        memory_(memory),
        offsets_(static_cast<std::size_t>(layout_.channels), C{0}),
        slopes_(offsets_) {}

  // sum dz and sum dz (x - mean) of a tile's columns. Stores dz where it is not found again as easily.
  void tile_sums(const Tile& tile, C* sum, C* product) const {
    std::fill_n(sum, tile.channels, C{0});
    std::fill_n(product, tile.channels, C{0});
    std::int64_t row = 0;
    for (; row + kRowsAtOnce <= tile.rows; row += kRowsAtOnce) add_rows<kRowsAtOnce>(tile, row, sum, product);
    for (; row < tile.rows; ++row) add_rows<1>(tile, row, sum, product);
  }

  // The same sums of a channel whose values are not adjacent to other channels'.
  void channel_sums(std::int64_t c, double& sum, double& product) const {
    const C mean = affine_.means()[c], scale = affine_.scales()[c], shift = affine_.shifts()[c];
    sum = product = 0;
    for_each_channel_block(layout_, c, [&](std::int64_t at, std::int64_t n) {
      C block = 0, block_product = 0;
#pragma omp simd reduction(+ : block, block_product)
      for (std::int64_t i = at; i < at + n; ++i) {
        const C x = static_cast<C>(memory_.x[i]);
        const C g = masked<mask>(static_cast<C>(memory_.dy[i]), x, memory_.y, i, mean, scale, shift);
        if constexpr (mask == Mask::from_output) memory_.dz[i] = static_cast<T>(g);
        block += g;
        block_product += g * (x - mean);
      }
      sum += static_cast<double>(block);
      product += static_cast<double>(block_product);
    });
  }

  // sums [2, C]: dz and dz h. dx takes them in; without this call statistics are constants.
  void take_in(const double* sums) {
    const double count = static_cast<double>(layout_.outer * layout_.inner);
    for (std::size_t c = 0; c < offsets_.size(); ++c) {
      offsets_[c] = static_cast<C>(sums[c] / count);
      slopes_[c] = static_cast<C>(sums[offsets_.size() + c] / count * static_cast<double>(affine_.inv_stds()[c]));
    }
  }

  void tile_dx(const Tile& tile) const {
    const std::int64_t c = tile.channel;
    for (std::int64_t row = 0; row < tile.rows; ++row)
      write_dx(tile.begin() + row * tile.step, tile.channels, affine_.means() + c, affine_.scales() + c,
               affine_.shifts() + c, offsets_.data() + c, slopes_.data() + c);
  }

  void plane_dx(std::int64_t channel, std::int64_t at) const {
    const auto c = static_cast<std::size_t>(channel);
    write_dx(at, layout_.inner, Repeated<C>{affine_.means()[c]}, Repeated<C>{affine_.scales()[c]},
             Repeated<C>{affine_.shifts()[c]}, Repeated<C>{offsets_[c]}, Repeated<C>{slopes_[c]});
  }

  C inv_std(std::int64_t c) const { return affine_.inv_stds()[c]; }

 private:
  template <int count>
  void add_rows(const Tile& tile, std::int64_t row, C* sum, C* product) const {
    const std::int64_t first = tile.begin() + row * tile.step;
    const C *mean = affine_.means() + tile.channel, *scale = affine_.scales() + tile.channel,
            *shift = affine_.shifts() + tile.channel;
    const T *x = memory_.x + first, *dy = memory_.dy + first, *y = memory_.y + first;
    T* dz = memory_.dz + first;
    for_each_vector<C>(tile.channels, [=, &tile](auto i) {
      if constexpr (count == kRowsAtOnce) {
        prefetch_rows(x, tile, i);
        prefetch_rows(dy, tile, i);
        if constexpr (mask == Mask::from_output) prefetch_rows(y, tile, i);
      }
      auto more = at(sum, i), more_product = at(product, i);
#pragma GCC unroll 4
      for (int r = 0; r < count; ++r) {
        const std::int64_t skip = r * tile.step;
        const auto v = at(x + skip, i);
        const auto g = masked<mask>(at(dy + skip, i), v, y + skip, i, at(mean, i), at(scale, i), at(shift, i));
        if constexpr (mask == Mask::from_output) put(dz + skip, i, g);
        more += g;
        more_product += g * (v - at(mean, i));
      }
      put(sum, i, more);
      put(product, i, more_product);
    });
  }

  // dx = scale (dz - offset - (x - mean) slope) of n values from `first` on. A mask from the output is in dz already.
  // Numbers: arrays, or Repeated.
  template <class Numbers>
  void write_dx(std::int64_t first, std::int64_t n, Numbers mean, Numbers scale, Numbers shift, Numbers offset,
                Numbers slope) const {
    constexpr Mask left = mask == Mask::from_input ? mask : Mask::none;
    const T *x = memory_.x + first, *dz = (mask == Mask::from_output ? memory_.dz : memory_.dy) + first;
    T* dx = memory_.dx + first;  // may be dz
    for_each_vector<C>(n, [=](auto i) {
      const auto v = at(x, i);
      const auto g = masked<left>(at(dz, i), v, x, i, at(mean, i), at(scale, i), at(shift, i));
      put(dx, i, at(scale, i) * (g - at(offset, i) - (v - at(mean, i)) * at(slope, i)));
    });
  }

  BatchNormLayout layout_;
  Affines<C> affine_;
  Memory<T> memory_;
  std::vector<C> offsets_, slopes_;
};

// Sums of all chunks, in order.
template <class C>
void merge_sums(const BatchNormLayout& layout, const C* partial, double* sums) {
  for_channels(2 * layout.channels, 2 * chunks_of(layout), [&](std::int64_t begin, std::int64_t end) {
    std::fill(sums + begin, sums + end, 0.);
    for (std::int64_t chunk = 0; chunk < chunks_of(layout); ++chunk)
      for (std::int64_t c = begin; c < end; ++c)
        sums[c] += static_cast<double>(partial[2 * chunk * layout.channels + c]);
  });
}

// sums: [2, C] or null.
template <Mask mask, class T>
void run(const BatchNormOperands& given, const Memory<T>& memory, bool training, double* sums) {
  const BatchNormLayout& layout = given.layout;
  Backward<mask, T> backward(given, memory);
  const std::int64_t channels = layout.channels;
  const bool need_sums = sums != nullptr || mask == Mask::from_output;  // these store dz, too
  const auto finish_sums = [&] {
    for (std::int64_t c = 0; c < channels; ++c) sums[channels + c] *= static_cast<double>(backward.inv_std(c));
    if (training) backward.take_in(sums);
  };
  if (layout.inner != 1) {
    for_channels(need_sums ? channels : 0, layout.outer * layout.inner, [&](std::int64_t begin, std::int64_t end) {
      double unused[2];
      for (std::int64_t c = begin; c < end; ++c)
        backward.channel_sums(c, sums ? sums[c] : unused[0], sums ? sums[channels + c] : unused[1]);
    });
    if (sums) finish_sums();
    for_each_plane(layout, [&](std::int64_t c, std::int64_t at) { backward.plane_dx(c, at); });
    return;
  }
  using C = compute_t<T>;
  Tensor scratch = scratch_for<C>(layout);
  C* partial = scratch.template mutable_data<C>();
  for_each_tile(layout, [&](const Tile& tile) {
    C* out = partial + tile.chunk * 2 * channels + tile.channel;
    if (need_sums) backward.tile_sums(tile, out, out + channels);
    if (!training) backward.tile_dx(tile);
  });
  if (sums) {
    merge_sums(layout, partial, sums);
    finish_sums();
  }
  if (training) for_each_tile(layout, [&](const Tile& tile) { backward.tile_dx(tile); });
}

}  // namespace

template <>
void batch_norm_backward<DeviceType::cpu>(const BatchNormOperands& given, const Tensor& dy, const Tensor& output,
                                          bool training, Tensor& sums, Tensor& dz, Tensor& dx) {
  double* to_sums = sums.defined() ? sums.mutable_data<double>() : nullptr;
  visit_floating("batch_norm_backward", dy.dtype(), [&]<class T>() {
    T* out = dx.mutable_data<T>();
    Memory<T> memory{.x = given.x.data<T>(), .dy = dy.data<T>(), .y = given.x.data<T>(), .dz = out, .dx = out};
    if (output.defined()) {
      memory.y = output.data<T>();
      memory.dz = dz.mutable_data<T>();
      run<Mask::from_output>(given, memory, training, to_sums);
    } else if (given.relu) {
      run<Mask::from_input>(given, memory, training, to_sums);
    } else {
      run<Mask::none>(given, memory, training, to_sums);
    }
  });
}

template <>
void batch_norm_parameter_gradient<DeviceType::cpu>(const Tensor& sum, Tensor& gradient, bool accumulate) {
  store_sums(sum.data<double>(), gradient, accumulate);
}

}  // namespace tandem::core::kernels
