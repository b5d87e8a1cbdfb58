// What forward and backward of attention share: how a head's matrices are laid out for products on register tiles
// (gemm.h), and the mask. T is the type of the tensors, C that of arithmetic, d the columns of a head.
//
// Products take factors in units along their depth: an element, or two bfloat16 elements for one instruction. So the
// same matrix of bfloat16 lies differently in a product over its columns and in one over its rows.
//
// Every matrix has its width rounded up to whole vectors: what is beyond its columns is zero, or -infinity for scores.
// That, and rows that lie close together, is why heads are copied out of [N, S, D]: rows D apart would share few places
// of the cache.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <vector>

#include "tandem/core/cpu/gemm.h"
#include "tandem/core/ops/attention.h"
#include "tandem/core/ops/cpu/softmax.h"
#include "tandem/core/parallel.h"

namespace tandem::core::cpu {

template <class C>
std::int64_t whole_vectors(std::int64_t n) {
  return (n + kLanes<C> - 1) / kLanes<C> * kLanes<C>;
}

/// Room on the heap that goes with its owner.
template <class C>
class Scratch {
 public:
  explicit Scratch(std::int64_t n)
      : memory_(Tensor::empty({n * static_cast<std::int64_t>(sizeof(C))}, {.dtype = DType::uint8, .device = kCpu})),
        data_(reinterpret_cast<C*>(memory_.mutable_raw_data())) {}
  operator C*() const { return data_; }

 private:
  Tensor memory_;
  C* data_;
};

/// A head of one sequence: row r of d adjacent elements at data + r * stride.
template <class T>
struct Head {
  T* data;
  std::int64_t stride;

  Head from(std::int64_t row) const { return {data + row * stride, stride}; }
};

template <class T>
Head<const T> head_of(const Tensor& x, std::int64_t n, std::int64_t h, std::int64_t d) {
  return {x.data<T>() + n * x.strides()[0] + h * d, x.strides()[1]};
}

/// Elements [n, h] of a contiguous tensor [N, S, D], to be written; `first` is its first element.
template <class T>
Head<T> head_to_write(T* first, const Shape& shape, std::int64_t n, std::int64_t h, std::int64_t d) {
  return {first + n * shape[1] * shape[2] + h * d, shape[2]};
}

/// What a factor is made of.
template <class T>
struct UnitOf {
  using type = T;
};
template <>
struct UnitOf<bfloat16> {
  using type = Bfloat16Pair;
};
template <class T>
using Unit = typename UnitOf<T>::type;
template <class T>
inline constexpr std::int64_t kPerUnit = sizeof(Unit<T>) / sizeof(T);

/// Units that hold n elements.
template <class T>
std::int64_t units(std::int64_t n) {
  return (n + kPerUnit<T> - 1) / kPerUnit<T>;
}

/// Width of a factor whose units go along rows of n elements.
template <class T>
std::int64_t unit_width(std::int64_t n) {
  return whole_vectors<compute_t<T>>(units<T>(n));
}

/// For products over the columns of a head: to [rows, unit_width(d)].
template <class T>
void copy_rows(const Head<const T>& from, std::int64_t rows, std::int64_t d, Unit<T>* to) {
  const std::int64_t width = unit_width<T>(d) * kPerUnit<T>;
  for (std::int64_t r = 0; r < rows; ++r) {
    std::memcpy(to + r * width / kPerUnit<T>, from.data + r * from.stride, static_cast<std::size_t>(d) * sizeof(T));
    std::memset(reinterpret_cast<std::byte*>(to + r * width / kPerUnit<T>) + d * sizeof(T), 0,
                static_cast<std::size_t>(width - d) * sizeof(T));
  }
}

/// For products over its rows: to [units(rows), whole_vectors(d)].
template <class T>
void stack_rows(const Head<const T>& from, std::int64_t rows, std::int64_t d, Unit<T>* to) {
  if constexpr (kPerUnit<T> == 1) {
    copy_rows(from, rows, d, to);
  } else {
    const std::int64_t width = whole_vectors<float>(d);
    for (std::int64_t r = 0; r < rows; r += 2, to += width) {
      const T *lower = from.data + r * from.stride, *upper = r + 1 < rows ? lower + from.stride : nullptr;
      for (std::int64_t c = 0; c < d; ++c)
        to[c].bits = lower[c].bits | (upper != nullptr ? static_cast<std::uint32_t>(upper[c].bits) << 16 : 0);
      std::fill(to + d, to + width, Bfloat16Pair{0});
    }
  }
}

/// The same where `rows_of_it` is what copy_rows made: that itself, where units are elements, else stacked in `room`.
template <class T>
const Unit<T>* stacked(const Head<const T>& from, std::int64_t rows, std::int64_t d, const Unit<T>* rows_of_it,
                       Unit<T>* room) {
  if constexpr (kPerUnit<T> == 1) return rows_of_it;
  stack_rows(from, rows, d, room);
  return room;
}

/// Rows of results [rows, stride] become a factor in their place, for products over their columns: the same stride in
/// units. n is a multiple of the lanes.
template <class T>
Unit<T>* results_as_rows(compute_t<T>* results, std::int64_t stride, std::int64_t rows, std::int64_t n) {
  if constexpr (kPerUnit<T> != 1)
    for (std::int64_t r = 0; r < rows; ++r)
      round_to_bfloat16(results + r * stride, n, reinterpret_cast<bfloat16*>(results + r * stride));
  return reinterpret_cast<Unit<T>*>(results);
}

/// The same for products over their rows: units(rows) rows.
template <class T>
Unit<T>* results_stacked(compute_t<T>* results, std::int64_t stride, std::int64_t rows, std::int64_t n) {
  if constexpr (kPerUnit<T> != 1)
    for (std::int64_t r = 0; r < rows; r += 2)
      for (std::int64_t c = 0; c < n; c += kLanes<float>) {
        const float* lower = results + r * stride + c;
        const HalfWords upper = r + 1 < rows ? bfloat16_bits(load_vector(lower + stride)) : HalfWords{};
        const Vector<std::uint32_t> pairs = paired(bfloat16_bits(load_vector(lower)), upper);
        std::memcpy(results + r / 2 * stride + c, &pairs, sizeof(pairs));
      }
  return reinterpret_cast<Unit<T>*>(results);
}

/// to = factor * rows [n, whole_vectors(d)], where row r also has a factor of its own if `factors` is not null.
template <class T, class C>
void write_head(const C* rows, std::int64_t n, std::int64_t d, C factor, const C* factors, const Head<T>& to) {
  const std::int64_t width = whole_vectors<C>(d);
  for (std::int64_t r = 0; r < n; ++r) {
    const C f = factors != nullptr ? factor * factors[r] : factor;
    const C* row = rows + r * width;
    T* out = to.data + r * to.stride;
    for_each_vector<C>(d, [=](auto i) { put(out, i, f * at(row, i)); });
  }
}

/// The transpose of a factor [n, width] as the right side of a product over its columns: panels [n /
/// lanes][depth][lanes] of units, of which each is a sequence of vectors in memory.
template <class U>
void transpose_to_panels(const U* rows, std::int64_t width, std::int64_t n, std::int64_t depth, U* panels) {
  constexpr std::int64_t lanes = kLanes<U>;
  for (std::int64_t r = 0; r < n; r += lanes, panels += depth * lanes) {
    const std::int64_t count = std::min(lanes, n - r);
    for (std::int64_t lane = 0; lane < count; ++lane)
      for (std::int64_t c = 0; c < depth; ++c) panels[c * lanes + lane] = rows[(r + lane) * width + c];
    for (std::int64_t lane = count; lane < lanes; ++lane)
      for (std::int64_t c = 0; c < depth; ++c) panels[c * lanes + lane] = U{};
  }
}

/// out [rows, columns] = a [rows, depth] panels, columns a multiple of the lanes.
template <class U, class C>
void multiply_panels(const U* a, std::int64_t a_row, std::int64_t rows, std::int64_t depth, const U* panels,
                     std::int64_t columns, C* out, std::int64_t out_row) {
  for (std::int64_t c = 0; c < columns; c += kLanes<C>)
    tile_rows(rows, depth, a, a_row, 1, panels + c * depth, kLanes<C>, out + c, out_row, kLanes<C>, false);
}

/// out [rows, width] = or += a [rows, depth] b [depth, width], width a multiple of the lanes; a has any strides.
template <class U, class C>
void multiply_rows(const U* a, std::int64_t a_row, std::int64_t a_column, std::int64_t rows, std::int64_t depth,
                   const U* b, std::int64_t width, C* out, bool accumulate) {
  for (std::int64_t c = 0; c < width; c += kLanes<C>)
    tile_rows(rows, depth, a, a_row, a_column, b + c, width, out + c, width, kLanes<C>, accumulate);
}

/// The mask of each sequence, and what it saves.
template <class C>
class KeyMask {
 public:
  KeyMask(const AttentionOptions& options, std::int64_t batch, std::int64_t places)
      : width_(whole_vectors<C>(places)),
        used_(static_cast<std::size_t>(batch), places),
        scales_(static_cast<std::size_t>(batch), static_cast<C>(*options.scale)),
        added_(static_cast<std::size_t>(batch * width_), C{0}) {
    for (std::int64_t n = 0; n < batch; ++n) {
      C* row = added_.data() + n * width_;
      const bool* kept = options.mask.defined() ? options.mask.data<bool>() + n * places : nullptr;
      if (kept != nullptr) {
        std::int64_t used = places;
        while (used > 0 && !kept[used - 1]) --used;
        if (used == 0) scales_[static_cast<std::size_t>(n)] = 0;  // all scores are equal
        for (std::int64_t t = 0; t < used; ++t) row[t] = kept[t] ? C{0} : -std::numeric_limits<C>::infinity();
        if (used > 0) used_[static_cast<std::size_t>(n)] = used;
      }
      std::fill(row + used_[static_cast<std::size_t>(n)], row + width_, -std::numeric_limits<C>::infinity());
    }
  }

  /// Places up to the last one that gets attention: the rest need not be computed.
  std::int64_t used(std::int64_t n) const { return used_[static_cast<std::size_t>(n)]; }
  C scale(std::int64_t n) const { return scales_[static_cast<std::size_t>(n)]; }
  /// What is added to scores: 0 or -infinity, for whole_vectors(T) places.
  const C* added(std::int64_t n) const { return added_.data() + n * width_; }

 private:
  std::int64_t width_;
  std::vector<std::int64_t> used_;
  std::vector<C> scales_, added_;
};

/// run(for_each) once a thread, which then calls for_each(f) for f(n, h) on its share of all pairs. A share is a few
/// heads of every sequence, since sequences may differ in length, and goes sequence by sequence, whose heads lie beside
/// each other.
template <class Run>
void for_each_head(std::int64_t batch, std::int64_t heads, Run&& run) {
  parallel_for(batch * heads, 1, [&](std::int64_t first, std::int64_t last) {
    run([&](auto&& f) {
      for (std::int64_t n = 0; n < batch; ++n)
        for (std::int64_t h = (first - n + batch - 1) / batch; h * batch + n < last; ++h) f(n, h);
    });
  });
}

}  // namespace tandem::core::cpu
