#include "tandem/core/ops/embedding.h"

#include <cstring>
#include <vector>

#include "tandem/core/cpu/strided.h"

namespace tandem::core::kernels {
using namespace cpu;
namespace {

// Columns that one sum holds on the stack, and positions that are summed before the partial sum goes into a double.
constexpr std::int64_t kColumns = 256, kPositions = 64;

// Serial: an exception must not leave a parallel loop.
void check_range(const char* op, const std::int64_t* indices, std::int64_t n, std::int64_t rows) {
  for (std::int64_t i = 0; i < n; ++i)
    if (indices[i] < 0 || indices[i] >= rows)
      fail("{}: index {} of position {} is not in [0, {})", op, indices[i], i, rows);
}

// Positions grouped by their index: those of index v are positions[starts[v]], ..., positions[starts[v + 1] - 1],
// ascending.
struct Groups {
  std::vector<std::int64_t> starts, positions, used;  // used: the v that have positions, ascending

  Groups(const std::int64_t* indices, std::int64_t n, std::int64_t rows, std::int64_t padding_idx)
      : starts(static_cast<std::size_t>(rows) + 2), positions(static_cast<std::size_t>(n)) {
    // A counting sort. Counts are kept two places on, so that placing moves each start to where it belongs.
    for (std::int64_t i = 0; i < n; ++i)
      if (indices[i] != padding_idx) ++starts[static_cast<std::size_t>(indices[i]) + 2];
    for (std::int64_t v = 0; v < rows; ++v) {
      const auto at = static_cast<std::size_t>(v) + 2;
      if (starts[at] > 0) used.push_back(v);
      starts[at] += starts[at - 1];
    }
    for (std::int64_t i = 0; i < n; ++i)
      if (indices[i] != padding_idx)
        positions[static_cast<std::size_t>(starts[static_cast<std::size_t>(indices[i]) + 1]++)] = i;
  }
};

// total[c] = sum over the positions [begin, end) of dy[position][c] for n <= kColumns columns.
template <class T>
void sum_positions(const T* dy, std::int64_t step, const std::int64_t* begin, const std::int64_t* end, std::int64_t n,
                   double* total) {
  using C = compute_t<T>;
  std::fill_n(total, n, 0.);
  for (const std::int64_t* chunk = begin; chunk < end; chunk += kPositions) {
    C partial[kColumns];
    std::fill_n(partial, n, C{0});
    for (const std::int64_t* p = chunk; p < std::min(end, chunk + kPositions); ++p) {
      const T* row = dy + *p * step;
#pragma GCC ivdep
      for (std::int64_t c = 0; c < n; ++c) partial[c] += static_cast<C>(row[c]);
    }
    for (std::int64_t c = 0; c < n; ++c) total[c] += static_cast<double>(partial[c]);
  }
}

}  // namespace

template <>
void embedding<DeviceType::cpu>(const Tensor& weight, const Tensor& indices, Tensor& output) {
  const std::int64_t n = indices.numel(), columns = weight.shape()[1];
  const std::int64_t row_step = weight.strides()[0], step = weight.strides()[1];
  const std::int64_t* rows = indices.data<std::int64_t>();
  check_range("embedding", rows, n, weight.shape()[0]);
  if (output.numel() == 0) return;
  visit_all(weight.dtype(), [&]<class T>() {
    const T* in = weight.data<T>();
    T* out = output.mutable_data<T>();
    parallel_for(n, std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(1, columns)),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t i = begin; i < end; ++i) {
                     const T* row = in + rows[i] * row_step;
                     if (step == 1) {
                       std::memcpy(out + i * columns, row, static_cast<std::size_t>(columns) * sizeof(T));
                     } else {
                       for (std::int64_t c = 0; c < columns; ++c) out[i * columns + c] = row[c * step];
                     }
                   }
                 });
  });
}

template <>
void embedding_backward<DeviceType::cpu>(const Tensor& dy, const Tensor& indices, Tensor& dweight,
                                         std::int64_t padding_idx) {
  const std::int64_t n = indices.numel(), columns = dweight.shape()[1];
  const std::int64_t row_step = dweight.strides()[0], step = dweight.strides()[1];
  check_range("embedding_backward", indices.data<std::int64_t>(), n, dweight.shape()[0]);
  if (n == 0 || columns == 0) return;
  const Groups groups(indices.data<std::int64_t>(), n, dweight.shape()[0], padding_idx);
  visit_floating("embedding_backward", dy.dtype(), [&]<class T>() {
    using C = compute_t<T>;
    const T* gradient = dy.data<T>();
    T* out = dweight.mutable_data<T>();
    // Threads share out columns, not rows: some words are far more frequent than others.
    parallel_for(columns, std::max<std::int64_t>(32, kGrain / n), [&](std::int64_t begin, std::int64_t end) {
      double total[kColumns];
      for (const std::int64_t v : groups.used) {
        const std::int64_t* positions = groups.positions.data();
        const std::int64_t first = groups.starts[static_cast<std::size_t>(v)],
                           last = groups.starts[static_cast<std::size_t>(v) + 1];
        for (std::int64_t c = begin; c < end; c += kColumns) {
          const std::int64_t count = std::min(kColumns, end - c);
          sum_positions(gradient + c, columns, positions + first, positions + last, count, total);
          T* row = out + v * row_step + c * step;
          for (std::int64_t i = 0; i < count; ++i)
            row[i * step] = static_cast<T>(static_cast<C>(row[i * step]) + static_cast<C>(total[i]));
        }
      }
    });
  });
}

}  // namespace tandem::core::kernels
