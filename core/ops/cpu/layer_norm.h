// What the kernels of layer norm and of the operators that end in one do with a row of n values.
#pragma once

#include <algorithm>
#include <cmath>

#include "tandem/core/cpu/blocks.h"
#include "tandem/core/cpu/row_sums.h"
#include "tandem/core/cpu/vectors.h"

namespace tandem::core::cpu {

template <class C>
struct RowMoments {
  C mean, inv_std;
};

/// A row is in L1 after its first pass, so a mean is known before deviations from it are squared. Their own mean then
/// corrects it: that is 0 but for rounding, of which inv_std would otherwise magnify an ulp. The mean of a constant row
/// is its value to the last bit, and its variance 0.
template <class T>
RowMoments<compute_t<T>> row_moments(const T* x, std::int64_t n, double eps) {
  using C = compute_t<T>;
  const double size = static_cast<double>(n);
  double total = 0, deviations = 0, squares = 0;
  for_each_block(n, [&](std::int64_t begin, std::int64_t count) {
    VectorSum<C> sum;
    for_each_vector<C>(count, [&](auto i) { sum.add(at(x + begin, i)); });
    total += sum.total();
  });
  const C mean = static_cast<C>(total / size);
  for_each_block(n, [&](std::int64_t begin, std::int64_t count) {
    VectorSum<C> sum, square;
    for_each_vector<C>(count, [&](auto i) {
      const auto deviation = at(x + begin, i) - mean;
      sum.add(deviation);
      square.add(deviation * deviation);
    });
    deviations += sum.total();
    squares += square.total();
  });
  const double correction = deviations / size;
  const double variance = std::max(squares / size - correction * correction, 0.);  // in this order NaN passes
  return {static_cast<C>(static_cast<double>(mean) + correction), static_cast<C>(1 / std::sqrt(variance + eps))};
}

/// y = (x - mean) inv_std weight + bias
template <class T>
void normalize_row(const T* x, RowMoments<compute_t<T>> moments, const compute_t<T>* weight, const compute_t<T>* bias,
                   std::int64_t n, T* y) {
  for_each_vector<compute_t<T>>(
      n, [=](auto i) { put(y, i, (at(x, i) - moments.mean) * moments.inv_std * at(weight, i) + at(bias, i)); });
}

/// What dx needs of a row: means of g and g h, where g = dy weight.
template <class C>
struct RowGradientMeans {
  C g, gh;
};

/// Also adds dy h to dweight [n] and dy to dbias [n], where kSums.
template <bool kSums, class T>
RowGradientMeans<compute_t<T>> row_gradient_means(const T* dy, const T* x, RowMoments<compute_t<T>> moments,
                                                  const compute_t<T>* weight, std::int64_t n, compute_t<T>* dweight,
                                                  compute_t<T>* dbias) {
  using C = compute_t<T>;
  double total = 0, total_product = 0;
  for_each_block(n, [&](std::int64_t begin, std::int64_t count) {
    [[maybe_unused]] C *dw = kSums ? dweight + begin : nullptr, *db = kSums ? dbias + begin : nullptr;
    VectorSum<C> sum, product;
    for_each_vector<C>(count, [&](auto i) {
      const auto gradient = at(dy + begin, i), g = gradient * at(weight + begin, i);
      const auto h = (at(x + begin, i) - moments.mean) * moments.inv_std;
      sum.add(g);
      product.add(g * h);
      if constexpr (kSums) {
        put(dw, i, at(dw, i) + gradient * h);
        put(db, i, at(db, i) + gradient);
      }
    });
    total += sum.total();
    total_product += product.total();
  });
  const double size = static_cast<double>(n);
  return {static_cast<C>(total / size), static_cast<C>(total_product / size)};
}

/// dx = inv_std (g - mean(g) - h mean(g h)), of an element or a vector of them.
template <class X, class C>
[[gnu::always_inline]] inline X row_gradient(X dy, X x, RowMoments<C> moments, X weight, RowGradientMeans<C> means) {
  const X h = (x - moments.mean) * moments.inv_std;
  return moments.inv_std * (dy * weight - means.g - h * means.gh);
}

/// Rows below which a second thread is not worth it.
inline std::int64_t row_grain(std::int64_t n) { return std::max<std::int64_t>(1, (1 << 13) / n); }

/// row.operator()<kSums>(r, dweight, dbias) for each row, in parallel. Where a parameter's gradient is wanted, kSums is
/// true and each row adds to the sums [n] that it is given, which then go into dweight and dbias; else they are null.
template <class C, class Row>
void for_each_gradient_row(std::int64_t rows, std::int64_t n, Tensor& dweight, Tensor& dbias, bool accumulate,
                           Row&& row) {
  if (!dweight.defined() && !dbias.defined()) {
    parallel_for(rows, row_grain(n), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) row.template operator()<false>(r, nullptr, nullptr);
    });
    return;
  }
  const Tensor totals =
      sum_in_row_chunks<double, C>(rows, 2 * n, kRowsPerSum, [&](std::int64_t begin, std::int64_t end, C* sums) {
        for (std::int64_t r = begin; r < end; ++r) row.template operator()<true>(r, sums, sums + n);
      });
  store_sums(totals.data<double>(), dweight, accumulate);
  store_sums(totals.data<double>() + n, dbias, accumulate);
}

}  // namespace tandem::core::cpu
