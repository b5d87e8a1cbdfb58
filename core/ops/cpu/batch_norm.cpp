#include "tandem/core/ops/batch_norm.h"

#include <cmath>

#include "tandem/core/ops/cpu/row_sums.h"
#include "tandem/core/ops/cpu/softmax.h"
#include "tandem/core/ops/cpu/strided.h"

namespace tandem::core::cpu {
namespace {

// Rows [o, :] of channels that are summed in the precision of the data. Short enough for the moments below to be exact
// to about kRows roundings, whatever the data.
constexpr std::int64_t kRows = 128;

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

// Where channels are adjacent: f(chunk, first row, rows, first channel, channels) for tiles of kRows x kRowBlock; a
// tile's accumulators are in L1.
template <class F>
void for_each_tile(const BatchNormLayout& layout, F&& f) {
  const std::int64_t chunks = (layout.outer + kRows - 1) / kRows;
  const std::int64_t grain = std::max<std::int64_t>(1, kGrain / (kRows * std::max<std::int64_t>(1, layout.channels)));
  parallel_for(chunks, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t chunk = begin; chunk < end; ++chunk)
      for_each_block(layout.channels, [&](std::int64_t channel, std::int64_t count) {
        f(chunk, chunk * kRows, std::min(kRows, layout.outer - chunk * kRows), channel, count);
      });
  });
}

// Where they are not: f(c) for each channel, in parallel.
template <class F>
void for_each_channel(const BatchNormLayout& layout, F&& f) {
  const std::int64_t size = std::max<std::int64_t>(1, layout.outer * layout.inner);
  parallel_for(layout.channels, std::max<std::int64_t>(1, kGrain / size), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) f(c);
  });
}

// f(c, offset) for each plane of `inner` adjacent values, in parallel.
template <class F>
void for_each_plane(const BatchNormLayout& layout, F&& f) {
  parallel_for(layout.outer * layout.channels,
               std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(1, layout.inner)),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t plane = begin; plane < end; ++plane)
                   f(plane % layout.channels, plane * layout.inner);
               });
}

// f(offset, n) for each block of channel c's values, in order.
template <class F>
void for_each_channel_block(const BatchNormLayout& layout, std::int64_t c, F&& f) {
  for (std::int64_t o = 0; o < layout.outer; ++o)
    for_each_block(layout.inner,
                   [&](std::int64_t begin, std::int64_t n) { f((o * layout.channels + c) * layout.inner + begin, n); });
}

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

// sum dy and sum dy (x - mean) of a tile's columns.
template <class T>
void tile_sums(const T* dy, const T* x, const compute_t<T>* mean, std::int64_t rows, std::int64_t step, std::int64_t n,
               double* sums, double* products) {
  using C = compute_t<T>;
  C sum[kRowBlock] = {}, product[kRowBlock] = {}, buffers[4][kRowBlock];
  std::int64_t row = 0;
  for (; row + 2 <= rows; row += 2) {
    const std::int64_t at = row * step;
    const C *ga = load_block(dy + at, n, buffers[0]), *gb = load_block(dy + at + step, n, buffers[1]);
    const C *xa = load_block(x + at, n, buffers[2]), *xb = load_block(x + at + step, n, buffers[3]);
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) {
      sum[i] += ga[i] + gb[i];
      product[i] += ga[i] * (xa[i] - mean[i]) + gb[i] * (xb[i] - mean[i]);
    }
  }
  for (; row < rows; ++row) {
    const C *g = load_block(dy + row * step, n, buffers[0]), *v = load_block(x + row * step, n, buffers[2]);
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) {
      sum[i] += g[i];
      product[i] += g[i] * (v[i] - mean[i]);
    }
  }
  std::copy_n(sum, n, sums);
  std::copy_n(product, n, products);
}

// Room for two numbers per chunk of rows and channel.
Tensor scratch_for(const BatchNormLayout& layout) {
  return Tensor::empty({(layout.outer + kRows - 1) / kRows, 2, layout.channels}, {.dtype = DType::float64});
}

// [C] or null.
template <class C>
const C* values(const Tensor& vector) {
  return vector.defined() ? vector.data<C>() : nullptr;
}

}  // namespace

void batch_norm_statistics(const Tensor& x, const BatchNormLayout& layout, Tensor& mean, Tensor& variance) {
  const std::int64_t channels = layout.channels;
  visit_floating("batch_norm", x.dtype(), [&]<class T>() {
    using C = compute_t<T>;
    const T* in = x.data<T>();
    C *means = mean.mutable_data<C>(), *variances = variance.mutable_data<C>();
    const auto store = [&](std::int64_t c, const Moments& moments) {
      means[c] = static_cast<C>(moments.mean);
      variances[c] = static_cast<C>(moments.squares / moments.count);
    };
    if (layout.inner != 1) {
      for_each_channel(layout, [&](std::int64_t c) {
        Moments moments;
        for_each_channel_block(layout, c, [&](std::int64_t at, std::int64_t n) { add_block(in + at, n, moments); });
        store(c, moments);
      });
      return;
    }
    Tensor scratch = scratch_for(layout);
    double* partial = scratch.mutable_data<double>();
    for_each_tile(layout, [&](std::int64_t chunk, std::int64_t row, std::int64_t rows, std::int64_t c, std::int64_t n) {
      double* means_of_chunk = partial + chunk * 2 * channels + c;
      tile_moments(in + row * channels + c, rows, channels, n, means_of_chunk, means_of_chunk + channels);
    });
    const std::int64_t chunks = scratch.shape()[0];
    parallel_for(channels, std::max<std::int64_t>(1, kGrain / 4 / std::max<std::int64_t>(1, chunks)),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t c = begin; c < end; ++c) {
                     Moments moments;
                     for (std::int64_t k = 0; k < chunks; ++k)
                       moments.add(static_cast<double>(std::min(kRows, layout.outer - k * kRows)),
                                   partial[2 * k * channels + c], partial[(2 * k + 1) * channels + c]);
                     store(c, moments);
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

void batch_norm_apply(const Tensor& x, const BatchNormLayout& layout, const Tensor& mean, const Tensor& inv_std,
                      const Tensor& weight, const Tensor& bias, Tensor& output) {
  visit_floating("batch_norm", x.dtype(), [&]<class T>() {
    using C = compute_t<T>;
    const T* in = x.data<T>();
    T* out = output.mutable_data<T>();
    const C *means = mean.data<C>(), *inverse = inv_std.data<C>(), *weights = values<C>(weight),
            *shifts = values<C>(bias);
    if (layout.inner != 1) {
      for_each_plane(layout, [&](std::int64_t c, std::int64_t at) {
        const C m = means[c], scale = inverse[c] * (weights ? weights[c] : C{1}), shift = shifts ? shifts[c] : C{0};
        for (std::int64_t i = 0; i < layout.inner; ++i)
          out[at + i] = static_cast<T>((static_cast<C>(in[at + i]) - m) * scale + shift);
      });
      return;
    }
    for_each_tile(layout, [&](std::int64_t, std::int64_t row, std::int64_t rows, std::int64_t c, std::int64_t n) {
      C m[kRowBlock], scale[kRowBlock], shift[kRowBlock];
      for (std::int64_t i = 0; i < n; ++i) {
        m[i] = means[c + i];
        scale[i] = inverse[c + i] * (weights ? weights[c + i] : C{1});
        shift[i] = shifts ? shifts[c + i] : C{0};
      }
      for (std::int64_t r = row; r < row + rows; ++r) {
        const T* from = in + r * layout.channels + c;
        T* to = out + r * layout.channels + c;
        for (std::int64_t i = 0; i < n; ++i)
          to[i] = static_cast<T>((static_cast<C>(from[i]) - m[i]) * scale[i] + shift[i]);
      }
    });
  });
}

void batch_norm_sums(const Tensor& dy, const Tensor& x, const BatchNormLayout& layout, const Tensor& mean,
                     const Tensor& inv_std, Tensor& sums) {
  const std::int64_t channels = layout.channels;
  double *sum = sums.mutable_data<double>(), *product = sum + channels;
  visit_floating("batch_norm_backward", x.dtype(), [&]<class T>() {
    using C = compute_t<T>;
    const T *gradient = dy.data<T>(), *in = x.data<T>();
    const C *means = mean.data<C>(), *inverse = inv_std.data<C>();
    if (layout.inner != 1) {
      for_each_channel(layout, [&](std::int64_t c) {
        double total = 0, total_product = 0;
        for_each_channel_block(layout, c, [&](std::int64_t at, std::int64_t n) {
          C g_buffer[kRowBlock], x_buffer[kRowBlock], block = 0, block_product = 0;
          const C *g = load_block(gradient + at, n, g_buffer), *v = load_block(in + at, n, x_buffer), m = means[c];
#pragma omp simd reduction(+ : block, block_product)
          for (std::int64_t i = 0; i < n; ++i) {
            block += g[i];
            block_product += g[i] * (v[i] - m);
          }
          total += static_cast<double>(block);
          total_product += static_cast<double>(block_product);
        });
        sum[c] = total;
        product[c] = total_product * static_cast<double>(inverse[c]);
      });
      return;
    }
    Tensor scratch = scratch_for(layout);
    double* partial = scratch.mutable_data<double>();
    for_each_tile(layout, [&](std::int64_t chunk, std::int64_t row, std::int64_t rows, std::int64_t c, std::int64_t n) {
      double* out = partial + chunk * 2 * channels + c;
      const std::int64_t at = row * channels + c;
      tile_sums(gradient + at, in + at, means + c, rows, channels, n, out, out + channels);
    });
    std::fill_n(sum, 2 * channels, 0.);
    for (std::int64_t k = 0; k < scratch.shape()[0]; ++k)
      for (std::int64_t c = 0; c < 2 * channels; ++c) sum[c] += partial[2 * k * channels + c];
    for (std::int64_t c = 0; c < channels; ++c) product[c] *= static_cast<double>(inverse[c]);
  });
}

void batch_norm_parameter_gradient(const Tensor& sum, Tensor& gradient, bool accumulate) {
  store_sums(sum.data<double>(), gradient, accumulate);
}

void batch_norm_dx(const Tensor& dy, const Tensor& x, const BatchNormLayout& layout, const Tensor& mean,
                   const Tensor& inv_std, const Tensor& weight, const Tensor& sums, Tensor& dx) {
  const double count = static_cast<double>(layout.outer * layout.inner);
  visit_floating("batch_norm_backward", x.dtype(), [&]<class T>() {
    using C = compute_t<T>;
    const T *gradient = dy.data<T>(), *in = x.data<T>();
    T* out = dx.mutable_data<T>();
    const C *means = mean.data<C>(), *inverse = inv_std.data<C>(), *weights = values<C>(weight);
    const double* sum = values<double>(sums);
    // dx = scale (dy - offset - (x - mean) slope)
    const auto scale_of = [&](std::int64_t c) { return inverse[c] * (weights ? weights[c] : C{1}); };
    const auto offset_of = [&](std::int64_t c) { return static_cast<C>(sum ? sum[c] / count : 0); };
    const auto slope_of = [&](std::int64_t c) {
      return static_cast<C>(sum ? sum[layout.channels + c] / count * static_cast<double>(inverse[c]) : 0);
    };
    if (layout.inner != 1) {
      for_each_plane(layout, [&](std::int64_t c, std::int64_t at) {
        const C m = means[c], scale = scale_of(c), offset = offset_of(c), slope = slope_of(c);
        for (std::int64_t i = 0; i < layout.inner; ++i)
          out[at + i] = static_cast<T>(
              scale * (static_cast<C>(gradient[at + i]) - offset - (static_cast<C>(in[at + i]) - m) * slope));
      });
      return;
    }
    for_each_tile(layout, [&](std::int64_t, std::int64_t row, std::int64_t rows, std::int64_t c, std::int64_t n) {
      C m[kRowBlock], scale[kRowBlock], offset[kRowBlock], slope[kRowBlock];
      for (std::int64_t i = 0; i < n; ++i) {
        m[i] = means[c + i];
        scale[i] = scale_of(c + i);
        offset[i] = offset_of(c + i);
        slope[i] = slope_of(c + i);
      }
      for (std::int64_t r = row; r < row + rows; ++r) {
        const std::int64_t at = r * layout.channels + c;
        const T *g = gradient + at, *v = in + at;
        T* to = out + at;
#pragma GCC ivdep
        for (std::int64_t i = 0; i < n; ++i)
          to[i] =
              static_cast<T>(scale[i] * (static_cast<C>(g[i]) - offset[i] - (static_cast<C>(v[i]) - m[i]) * slope[i]));
      }
    });
  });
}

}  // namespace tandem::core::cpu
