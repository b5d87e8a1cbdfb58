// Batch norm backwards: the sums over dz in one pass, dx in another. Where statistics are constants, dx does not wait
// for the sums, and one pass does both.
#include "tandem/core/ops/batch_norm.h"

#include "tandem/core/ops/cpu/batch_norm_walk.h"
#include "tandem/core/ops/cpu/row_sums.h"

namespace tandem::core::cpu {
namespace {

// How dz = dy [y > 0] is found.
enum class Mask { none, from_input, from_output };

// Rows whose values are added up in registers for each load and store of the sums.
constexpr int kAtOnce = 4;

// y and dz are used where the mask is from the output, else they are some valid address.
template <class T>
struct Memory {
  const T *x, *dy, *y;
  T *dz, *dx;
};

// dz of one value; `y` is read where the mask is made of it.
template <Mask mask, class T, class C = compute_t<T>>
[[gnu::always_inline]] inline C masked(C dy, C x, const T* y, C mean, C scale, C shift) {
  if constexpr (mask == Mask::from_input) return normalized(x, mean, scale, shift) > 0 ? dy : C{0};
  if constexpr (mask == Mask::from_output) return static_cast<C>(*y) > 0 ? dy : C{0};
  return dy;
}

template <Mask mask, class T>
class Backward {
  using C = compute_t<T>;

 public:
  Backward(const BatchNormOperands& given, const Memory<T>& memory, const double* sums)
      : layout_(given.layout), affine_(given), memory_(memory), sums_(sums) {}

  // sum dz and sum dz (x - mean) of a tile's columns. Stores dz where it is not found again as easily.
  void tile_sums(const Tile& tile, double* sums, double* products) const {
    C sum[kRowBlock] = {}, product[kRowBlock] = {}, scale[kRowBlock], shift[kRowBlock];
    for (std::int64_t i = 0; i < tile.channels; ++i) {
      scale[i] = affine_.scale(tile.channel + i);
      shift[i] = affine_.shift(tile.channel + i);
    }
    std::int64_t row = 0;
    for (; row + kAtOnce <= tile.rows; row += kAtOnce) add_rows<kAtOnce>(tile, row, scale, shift, sum, product);
    for (; row < tile.rows; ++row) add_rows<1>(tile, row, scale, shift, sum, product);
    std::copy_n(sum, tile.channels, sums);
    std::copy_n(product, tile.channels, products);
  }

  void tile_dx(const Tile& tile) const {
    C scale[kRowBlock], shift[kRowBlock], offset[kRowBlock], slope[kRowBlock];
    for (std::int64_t i = 0; i < tile.channels; ++i) {
      scale[i] = affine_.scale(tile.channel + i);
      shift[i] = affine_.shift(tile.channel + i);
      offset[i] = offset_of(tile.channel + i);
      slope[i] = slope_of(tile.channel + i);
    }
    for (std::int64_t row = 0; row < tile.rows; ++row)
      write_dx(tile.begin() + row * tile.step, tile.channels, affine_.means() + tile.channel,
               static_cast<const C*>(scale), static_cast<const C*>(shift), static_cast<const C*>(offset),
               static_cast<const C*>(slope));
  }

  // The same sums of a channel whose values are not adjacent to other channels'.
  void channel_sums(std::int64_t c, double& sum, double& product) const {
    const C mean = affine_.means()[c], scale = affine_.scale(c), shift = affine_.shift(c);
    sum = product = 0;
    for_each_channel_block(layout_, c, [&](std::int64_t at, std::int64_t n) {
      C block = 0, block_product = 0;
#pragma omp simd reduction(+ : block, block_product)
      for (std::int64_t i = at; i < at + n; ++i) {
        const C x = static_cast<C>(memory_.x[i]);
        const C g = masked<mask>(static_cast<C>(memory_.dy[i]), x, memory_.y + i, mean, scale, shift);
        if constexpr (mask == Mask::from_output) memory_.dz[i] = static_cast<T>(g);
        block += g;
        block_product += g * (x - mean);
      }
      sum += static_cast<double>(block);
      product += static_cast<double>(block_product);
    });
  }

  void plane_dx(std::int64_t c, std::int64_t at) const {
    write_dx(at, layout_.inner, Repeated<C>{affine_.means()[c]}, Repeated<C>{affine_.scale(c)},
             Repeated<C>{affine_.shift(c)}, Repeated<C>{offset_of(c)}, Repeated<C>{slope_of(c)});
  }

  C inv_std(std::int64_t c) const { return affine_.inv_std(c); }

 private:
  template <int count>
  void add_rows(const Tile& tile, std::int64_t row, const C* scale, const C* shift, C* sum, C* product) const {
    const std::int64_t at = tile.begin() + row * tile.step, step = tile.step;
    const C* mean = affine_.means() + tile.channel;
    const T *x = memory_.x + at, *dy = memory_.dy + at, *y = memory_.y + at;
    T* dz = memory_.dz + at;
#pragma GCC ivdep
    for (std::int64_t i = 0; i < tile.channels; ++i) {
      C more = 0, more_product = 0;
#pragma GCC unroll 4
      for (int r = 0; r < count; ++r) {
        const C v = static_cast<C>(x[r * step + i]);
        const C g = masked<mask>(static_cast<C>(dy[r * step + i]), v, y + (r * step + i), mean[i], scale[i], shift[i]);
        if constexpr (mask == Mask::from_output) dz[r * step + i] = static_cast<T>(g);
        more += g;
        more_product += g * (v - mean[i]);
      }
      sum[i] += more;
      product[i] += more_product;
    }
  }

  // dx = scale (dz - offset - (x - mean) slope) of n values from `at` on. A mask from the output is in dz already.
  template <class Means, class Numbers>
  void write_dx(std::int64_t at, std::int64_t n, Means mean, Numbers scale, Numbers shift, Numbers offset,
                Numbers slope) const {
    constexpr Mask left = mask == Mask::from_input ? mask : Mask::none;
    const T *x = memory_.x + at, *dz = (mask == Mask::from_output ? memory_.dz : memory_.dy) + at;
    T* dx = memory_.dx + at;
#pragma GCC ivdep  // dx may be dz, element by element
    for (std::int64_t i = 0; i < n; ++i) {
      const C v = static_cast<C>(x[i]);
      const C g = masked<left, T>(static_cast<C>(dz[i]), v, nullptr, mean[i], scale[i], shift[i]);
      dx[i] = static_cast<T>(scale[i] * (g - offset[i] - (v - mean[i]) * slope[i]));
    }
  }

  double count() const { return static_cast<double>(layout_.outer * layout_.inner); }
  C offset_of(std::int64_t c) const { return static_cast<C>(sums_ ? sums_[c] / count() : 0); }
  C slope_of(std::int64_t c) const {
    return static_cast<C>(sums_ ? sums_[layout_.channels + c] / count() * static_cast<double>(inv_std(c)) : 0);
  }

  BatchNormLayout layout_;
  Affines<C> affine_;
  Memory<T> memory_;
  const double* sums_;  // what dx takes in, [2, C]; null where statistics are constants
};

// Sums of all chunks, in order.
void merge_sums(const BatchNormLayout& layout, const double* partial, double* sums) {
  for_channels(2 * layout.channels, 2 * chunks_of(layout), [&](std::int64_t begin, std::int64_t end) {
    std::fill(sums + begin, sums + end, 0.);
    for (std::int64_t chunk = 0; chunk < chunks_of(layout); ++chunk)
      for (std::int64_t c = begin; c < end; ++c) sums[c] += partial[2 * chunk * layout.channels + c];
  });
}

// sums: [2, C] or null.
template <Mask mask, class T>
void run(const BatchNormOperands& given, const Memory<T>& memory, bool training, double* sums) {
  const BatchNormLayout& layout = given.layout;
  const Backward<mask, T> backward(given, memory, training ? sums : nullptr);
  const std::int64_t channels = layout.channels;
  const bool need_sums = sums != nullptr || mask == Mask::from_output;  // these store dz, too
  const auto finish_sums = [&] {
    for (std::int64_t c = 0; c < channels; ++c) sums[channels + c] *= static_cast<double>(backward.inv_std(c));
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
  Tensor scratch = scratch_for(layout);
  double* partial = scratch.mutable_data<double>();
  for_each_tile(layout, [&](const Tile& tile) {
    double* out = partial + tile.chunk * 2 * channels + tile.channel;
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

void batch_norm_backward(const BatchNormOperands& given, const Tensor& dy, const Tensor& output, bool training,
                         Tensor& sums, Tensor& dz, Tensor& dx) {
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

void batch_norm_parameter_gradient(const Tensor& sum, Tensor& gradient, bool accumulate) {
  store_sums(sum.data<double>(), gradient, accumulate);
}

}  // namespace tandem::core::cpu
