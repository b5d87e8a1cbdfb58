// Batch norm forwards: statistics in one pass over x; normalising, adding and clamping in another. Backwards is in
// batch_norm_backward.cpp.
#include "tandem/core/ops/batch_norm.h"

#include <cmath>

#include "tandem/core/ops/cpu/batch_norm_walk.h"

namespace tandem::core::kernels {
using namespace cpu;
namespace {

// Count, mean and sum of squared deviations. Source for add(): Chan, Golub, LeVeque, "Updating formulae and a pairwise
// algorithm for computing sample variances", 1979.
struct Moments {
  double count = 0, mean = 0, squares = 0;

  void add(double n, double other_mean, double other_squares) {
    const double delta = other_mean - mean, total = count + n;
    mean += delta * (n / total);
    squares += other_squares + delta * delta * (count * n / total);
    count = total;
  }
};

// Sums, and sums of squares, of the deviations of `count` rows from `shift`.
template <int count, class T, class C = compute_t<T>>
void add_rows(const T* x, const Tile& tile, const T* shift, C* sum, C* square) {
  for_each_vector<C>(tile.channels, [=, &tile](auto i) {
    if constexpr (count == kRowsAtOnce) prefetch_rows(x, tile, i);
    auto more = at(sum, i), more_squares = at(square, i);
#pragma GCC unroll 4
    for (int r = 0; r < count; ++r) {
      const auto deviation = at(x + r * tile.step, i) - at(shift, i);
      more += deviation;
      more_squares += deviation * deviation;
    }
    put(sum, i, more);
    put(square, i, more_squares);
  });
}

// The same of a tile, in one pass. `shift` is its first row: it is one of the values, so the square of its distance
// from the mean is at most the sum of all squares, and little cancels.
template <class T, class C = compute_t<T>>
void tile_sums(const T* x, const Tile& tile, C* sum, C* square) {
  std::fill_n(sum, tile.channels, C{0});
  std::fill_n(square, tile.channels, C{0});
  const T* first = x + tile.begin();
  std::int64_t row = 0;
  for (; row + kRowsAtOnce <= tile.rows; row += kRowsAtOnce)
    add_rows<kRowsAtOnce>(first + row * tile.step, tile, first, sum, square);
  for (; row < tile.rows; ++row) add_rows<1>(first + row * tile.step, tile, first, sum, square);
}

// Adds what n adjacent values of one channel have, about the first of them.
template <class T>
void add_block(const T* x, std::int64_t n, Moments& moments) {
  using C = compute_t<T>;
  C buffer[kRowBlock];
  const C* v = load_block(x, n, buffer);
  const C shift = static_cast<C>(x[0]);
  C sum = 0, square = 0;
#pragma omp simd reduction(+ : sum, square)
  for (std::int64_t i = 0; i < n; ++i) {
    sum += v[i] - shift;
    square += (v[i] - shift) * (v[i] - shift);
  }
  const double total = static_cast<double>(sum), count = static_cast<double>(n);
  moments.add(count, static_cast<double>(shift) + total / count,
              std::max(0., static_cast<double>(square) - total * total / count));
}

// Moments::add of all chunks, for channels [begin, end).
template <class T, class C = compute_t<T>>
void merge_moments(const T* x, const BatchNormLayout& layout, const C* partial, std::int64_t begin, std::int64_t end,
                   C* means, C* variances) {
  const auto width = static_cast<std::size_t>(end - begin);
  std::vector<double> mean(width, 0.), squares(width, 0.);
  double count = 0;
  for (std::int64_t chunk = 0; chunk < chunks_of(layout); ++chunk) {
    const double n = static_cast<double>(std::min(kRows, layout.outer - chunk * kRows)), total = count + n;
    const double share = n / total, weight = count * share;
    const T* shift = x + chunk * kRows * layout.channels + begin;
    const C *sum = partial + 2 * chunk * layout.channels + begin, *square = sum + layout.channels;
#pragma GCC ivdep
    for (std::size_t c = 0; c < width; ++c) {
      const double of_chunk = static_cast<double>(sum[c]);
      const double delta = static_cast<double>(static_cast<C>(shift[c])) + of_chunk / n - mean[c];
      mean[c] += delta * share;
      squares[c] += std::max(0., static_cast<double>(square[c]) - of_chunk * of_chunk / n) + delta * delta * weight;
    }
    count = total;
  }
  for (std::size_t c = 0; c < width; ++c) {
    means[static_cast<std::size_t>(begin) + c] = static_cast<C>(mean[c]);
    variances[static_cast<std::size_t>(begin) + c] = static_cast<C>(squares[c] / count);
  }
}

// mean, scale, shift: arrays, or Repeated.
template <bool relu, bool add, class T, class Means, class Scales>
void apply_values(const T* x, const T* residual, T* out, std::int64_t n, Means mean, Scales scale, Scales shift) {
  for_each_vector<compute_t<T>>(n, [=](auto i) {
    auto z = normalized(at(x, i), at(mean, i), at(scale, i), at(shift, i));
    if constexpr (add) z += at(residual, i);
    if constexpr (relu) z = z < decltype(z){} ? decltype(z){} : z;  // in this form NaN passes
    put(out, i, z);
  });
}

template <bool relu, bool add, class T>
void apply(const BatchNormOperands& given, const T* residual, T* out) {
  using C = compute_t<T>;
  const T* x = given.x.data<T>();
  const Affines<C> affine(given);
  const auto residual_at = [&](std::int64_t at) { return add ? residual + at : nullptr; };
  if (given.layout.inner != 1) {
    for_each_plane(given.layout, [&](std::int64_t c, std::int64_t at) {
      apply_values<relu, add>(x + at, residual_at(at), out + at, given.layout.inner, Repeated<C>{affine.means()[c]},
                              Repeated<C>{affine.scales()[c]}, Repeated<C>{affine.shifts()[c]});
    });
    return;
  }
  for_each_tile(given.layout, [&](const Tile& tile) {
    for (std::int64_t row = 0; row < tile.rows; ++row) {
      const std::int64_t at = tile.begin() + row * tile.step;
      apply_values<relu, add>(x + at, residual_at(at), out + at, tile.channels, affine.means() + tile.channel,
                              affine.scales() + tile.channel, affine.shifts() + tile.channel);
    }
  });
}

}  // namespace

template <>
void batch_norm_statistics<DeviceType::cpu>(const Tensor& x, const BatchNormLayout& layout, Tensor& mean,
                                            Tensor& variance) {
  visit_floating("batch_norm", x.dtype(), [&]<class T>() {
    using C = compute_t<T>;
    const T* in = x.data<T>();
    C *means = mean.mutable_data<C>(), *variances = variance.mutable_data<C>();
    const double count = static_cast<double>(layout.outer * layout.inner);
    if (layout.inner != 1) {
      for_channels(layout.channels, layout.outer * layout.inner, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t c = begin; c < end; ++c) {
          Moments moments;
          for_each_channel_block(layout, c, [&](std::int64_t at, std::int64_t n) { add_block(in + at, n, moments); });
          means[c] = static_cast<C>(moments.mean);
          variances[c] = static_cast<C>(moments.squares / count);
        }
      });
      return;
    }
    Tensor scratch = scratch_for<C>(layout);
    C* partial = scratch.mutable_data<C>();
    for_each_tile(layout, [&](const Tile& tile) {
      C* sum = partial + tile.chunk * 2 * layout.channels + tile.channel;
      tile_sums(in, tile, sum, sum + layout.channels);
    });
    for_channels(layout.channels, 4 * chunks_of(layout), [&](std::int64_t begin, std::int64_t end) {
      merge_moments(in, layout, partial, begin, end, means, variances);
    });
  });
}

template <>
void batch_norm_inv_std<DeviceType::cpu>(const Tensor& variance, double eps, Tensor& inv_std) {
  visit_floating("batch_norm", variance.dtype(), [&]<class T>() {
    const T* in = variance.data<T>();
    T* out = inv_std.mutable_data<T>();
    for (std::int64_t c = 0; c < variance.numel(); ++c)
      out[c] = static_cast<T>(
          static_cast<compute_t<T>>(1 / std::sqrt(static_cast<double>(static_cast<compute_t<T>>(in[c])) + eps)));
  });
}

template <>
void batch_norm_apply<DeviceType::cpu>(const BatchNormOperands& given, const Tensor& residual, Tensor& output) {
  visit_floating("batch_norm", given.x.dtype(), [&]<class T>() {
    const T* added = residual.defined() ? residual.data<T>() : nullptr;
    T* out = output.mutable_data<T>();
    if (given.relu) {
      added ? apply<true, true>(given, added, out) : apply<true, false>(given, added, out);
    } else {
      added ? apply<false, true>(given, added, out) : apply<false, false>(given, added, out);
    }
  });
}

}  // namespace tandem::core::kernels
