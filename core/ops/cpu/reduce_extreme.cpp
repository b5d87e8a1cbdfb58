// max and min along a dimension, with the place where they stand. NaN wins over all, and the first of equals over the
// others.
#include <algorithm>

#include "tandem/core/cpu/strided.h"
#include "tandem/core/ops/reduce.h"

namespace tandem::core::kernels {
using namespace cpu;
namespace {

constexpr int kLanes = 32;              // independent chains: two AVX-512 registers of float
constexpr std::int64_t kOutputs = 256;  // neighbouring outputs that are computed together

// Whether v takes the place of `best`, which came before it. NaN takes any place but a NaN's.
template <bool Largest, class C>
bool beats(C v, C best) {
  const bool ordered = Largest ? v > best : v < best;
  return ordered | ((v != v) & (best == best));
}

// The extreme of one row, and the first place where it stands. Blocks are searched for their extreme with independent
// lanes; the place is then looked for in the winning block alone.
template <bool Largest, class T>
void extreme_of_row(const T* x, std::int64_t stride, std::int64_t n, T* value, std::int64_t* index) {
  using C = compute_t<T>;
  constexpr std::int64_t kBlockSize = 1024;
  C best = static_cast<C>(*x);
  std::int64_t winner = 0;
  for (std::int64_t block = 0; block < n; block += kBlockSize) {
    const std::int64_t end = std::min(n, block + kBlockSize), whole = end - (end - block) % kLanes;
    C lanes[kLanes];
    std::fill_n(lanes, kLanes, static_cast<C>(x[block * stride]));
    const auto take = [&](std::int64_t i, int l) {
      const C v = static_cast<C>(x[i * stride]);
      lanes[l] = beats<Largest>(v, lanes[l]) ? v : lanes[l];
    };
    if (stride == 1) {
      for (std::int64_t i = block; i < whole; i += kLanes)
        for (int l = 0; l < kLanes; ++l) {
          const C v = static_cast<C>(x[i + l]);
          lanes[l] = beats<Largest>(v, lanes[l]) ? v : lanes[l];
        }
    } else {
      for (std::int64_t i = block; i < whole; ++i) take(i, static_cast<int>((i - block) % kLanes));
    }
    for (std::int64_t i = whole; i < end; ++i) take(i, static_cast<int>(i - whole));
    C block_best = lanes[0];
    for (int l = 1; l < kLanes; ++l) block_best = beats<Largest>(lanes[l], block_best) ? lanes[l] : block_best;
    if (beats<Largest>(block_best, best)) {
      best = block_best;
      winner = block;
    }
  }
  while (beats<Largest>(best, static_cast<C>(x[winner * stride]))) ++winner;
  *value = x[winner * stride];
  *index = winner;
}

// `count` neighbouring outputs, at most kOutputs, whose elements along the dimension lie `step` apart, `size` of them
// each.
template <bool Largest, class T>
void extreme_of_columns(const T* x, std::int64_t x_stride, std::int64_t step, std::int64_t size, std::int64_t count,
                        T* values, std::int64_t value_stride, std::int64_t* indices, std::int64_t index_stride) {
  using C = compute_t<T>;
  C best[kOutputs];
  std::int64_t at[kOutputs];
  for (std::int64_t j = 0; j < count; ++j) {
    best[j] = static_cast<C>(x[j * x_stride]);
    at[j] = 0;
  }
  for (std::int64_t i = 1; i < size; ++i) {
    const T* row = x + i * step;
    for (std::int64_t j = 0; j < count; ++j) {
      const C v = static_cast<C>(row[j * x_stride]);
      const bool better = beats<Largest>(v, best[j]);
      best[j] = better ? v : best[j];
      at[j] = better ? i : at[j];
    }
  }
  for (std::int64_t j = 0; j < count; ++j) {
    values[j * value_stride] = static_cast<T>(best[j]);
    indices[j * index_stride] = at[j];
  }
}

template <bool Largest, class T>
void extreme_of(const Tensor& x, int dim, Tensor& values, Tensor& indices) {
  const auto plan = make_plan<3>(values.shape(), {&x.strides(), &values.strides(), &indices.strides()});
  const std::int64_t size = x.shape()[dim], step = x.strides()[dim];
  const T* from = x.data<T>();
  T* to = values.mutable_data<T>();
  std::int64_t* at = indices.mutable_data<std::int64_t>();
  for_each_run(plan, [=](const auto& offsets, std::int64_t n, const auto& strides) {
    const T* in = from + offsets[0];
    T* value = to + offsets[1];
    std::int64_t* index = at + offsets[2];
    // In memory order, as far as possible.
    if (step < strides[0] || n == 1) {
      for (std::int64_t i = 0; i < n; ++i)
        extreme_of_row<Largest>(in + i * strides[0], step, size, value + i * strides[1], index + i * strides[2]);
    } else {
      for (std::int64_t i = 0; i < n; i += kOutputs)
        extreme_of_columns<Largest>(in + i * strides[0], strides[0], step, size, std::min(kOutputs, n - i),
                                    value + i * strides[1], strides[1], index + i * strides[2], strides[2]);
    }
  });
}

}  // namespace

template <>
void extreme<DeviceType::cpu>(const Tensor& x, int dim, bool largest, Tensor& values, Tensor& indices) {
  visit_all(x.dtype(), [&]<class T>() {
    largest ? extreme_of<true, T>(x, dim, values, indices) : extreme_of<false, T>(x, dim, values, indices);
  });
}

}  // namespace tandem::core::kernels
