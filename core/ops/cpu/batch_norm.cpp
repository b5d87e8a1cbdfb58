// Batch norm forwards: statistics in one pass over x; normalising, adding and clamping in another. Backwards is in
// batch_norm_backward.cpp.
#include "tandem/core/ops/batch_norm.h"

#include <cmath>

#include "tandem/core/ops/cpu/batch_norm_walk.h"

namespace tandem::core::cpu {
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

// Means and sums of squared deviations of a tile's columns, in one pass. Deviations are taken from the first row: it is
// one of the values, so the square of its distance from the mean is at most the sum of all squares, and little cancels.
template <class T>
void tile_moments(const T* x, std::int64_t rows, std::int64_t step, std::int64_t n, double* means, double* squares) {
  using C = compute_t<T>;
  C shift[kRowBlock], sum[kRowBlock] = {}, square[kRowBlock] = {}, buffers[4][kRowBlock];
  for (std::int64_t i = 0; i < n; ++i) shift[i] = static_cast<C>(x[i]);
  std::int64_t row = 0;
  for (; row + 4 <= rows; row += 4) {  // four rows for each load and store of the accumulators
    const T* first = x + row * step;
    const C *a = load_block(first, n, buffers[0]), *b = load_block(first + step, n, buffers[1]);
    const C *c = load_block(first + 2 * step, n, buffers[2]), *d = load_block(first + 3 * step, n, buffers[3]);
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) {
      const C da = a[i] - shift[i], db = b[i] - shift[i], dc = c[i] - shift[i], dd = d[i] - shift[i];
      sum[i] += (da + db) + (dc + dd);
      square[i] += (da * da + db * db) + (dc * dc + dd * dd);
    }
  }
  for (; row < rows; ++row) {
    const C* a = load_block(x + row * step, n, buffers[0]);
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) {
      const C da = a[i] - shift[i];
      sum[i] += da;
      square[i] += da * da;
    }
  }
  for (std::int64_t i = 0; i < n; ++i) {
    const double total = static_cast<double>(sum[i]), count = static_cast<double>(rows);
    means[i] = static_cast<double>(shift[i]) + total / count;
    squares[i] = std::max(0., static_cast<double>(square[i]) - total * total / count);
  }
}

// The same for n adjacent values of one channel.
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

// Moments::add of all chunks, for channels [begin, end), into those of the first.
void merge_moments(const BatchNormLayout& layout, double* partial, std::int64_t begin, std::int64_t end) {
  double *means = partial, *squares = partial + layout.channels, count = static_cast<double>(kRows);
  for (std::int64_t chunk = 1; chunk < chunks_of(layout); ++chunk) {
    const double n = static_cast<double>(std::min(kRows, layout.outer - chunk * kRows)), total = count + n;
    const double share = n / total, weight = count * share;
    const double *more_means = partial + 2 * chunk * layout.channels, *more_squares = more_means + layout.channels;
#pragma GCC ivdep
    for (std::int64_t c = begin; c < end; ++c) {
      const double delta = more_means[c] - means[c];
      means[c] += delta * share;
      squares[c] += more_squares[c] + delta * delta * weight;
    }
    count = total;
  }
}

// mean, scale, shift: arrays by value, or Repeated.
template <bool relu, bool add, class T, class Means, class Scales>
void apply_values(const T* x, const T* residual, T* out, std::int64_t n, Means mean, Scales scale, Scales shift) {
  using C = compute_t<T>;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    C z = normalized(static_cast<C>(x[i]), mean[i], scale[i], shift[i]);
    if constexpr (add) z += static_cast<C>(residual[i]);
    if constexpr (relu) z = z < 0 ? C{0} : z;  // in this form NaN passes
    out[i] = static_cast<T>(z);
  }
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
                              Repeated<C>{affine.scale(c)}, Repeated<C>{affine.shift(c)});
    });
    return;
  }
  for_each_tile(given.layout, [&](const Tile& tile) {
    C scale[kRowBlock], shift[kRowBlock];
    for (std::int64_t i = 0; i < tile.channels; ++i) {
      scale[i] = affine.scale(tile.channel + i);
      shift[i] = affine.shift(tile.channel + i);
    }
    for (std::int64_t row = 0; row < tile.rows; ++row) {
      const std::int64_t at = tile.begin() + row * tile.step;
      apply_values<relu, add>(x + at, residual_at(at), out + at, tile.channels, affine.means() + tile.channel,
                              static_cast<const C*>(scale), static_cast<const C*>(shift));
    }
  });
}

}  // namespace

void batch_norm_statistics(const Tensor& x, const BatchNormLayout& layout, Tensor& mean, Tensor& variance) {
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
    Tensor scratch = scratch_for(layout);
    double* partial = scratch.mutable_data<double>();
    for_each_tile(layout, [&](const Tile& tile) {
      double* means_of_tile = partial + tile.chunk * 2 * layout.channels + tile.channel;
      tile_moments(in + tile.begin(), tile.rows, tile.step, tile.channels, means_of_tile,
                   means_of_tile + layout.channels);
    });
    for_channels(layout.channels, 4 * chunks_of(layout), [&](std::int64_t begin, std::int64_t end) {
      merge_moments(layout, partial, begin, end);
      for (std::int64_t c = begin; c < end; ++c) {
        means[c] = static_cast<C>(partial[c]);
        variances[c] = static_cast<C>(partial[layout.channels + c] / count);
      }
    });
  });
}

void batch_norm_inv_std(const Tensor& variance, double eps, Tensor& inv_std) {
  visit_floating("batch_norm", variance.dtype(), [&]<class T>() {
    const T* in = variance.data<T>();
    T* out = inv_std.mutable_data<T>();
    for (std::int64_t c = 0; c < variance.numel(); ++c)
      out[c] = static_cast<T>(
          static_cast<compute_t<T>>(1 / std::sqrt(static_cast<double>(static_cast<compute_t<T>>(in[c])) + eps)));
  });
}

void batch_norm_apply(const BatchNormOperands& given, const Tensor& residual, Tensor& output) {
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

}  // namespace tandem::core::cpu
