#include "tandem/core/ops/linear.h"

#include "tandem/core/cpu/bfloat16_layouts.h"
#include "tandem/core/cpu/gemm.h"
#include "tandem/core/cpu/onednn.h"
#include "tandem/core/cpu/row_sums.h"
#include "tandem/core/ops/matmul.h"
#include "tandem/core/parallel.h"

namespace tandem::core::kernels {
using namespace cpu;
namespace {

// Multiply-adds of a small product.
constexpr std::int64_t kSmall = 1 << 16;

template <class T>
void repeat_row(const Tensor& row, Tensor& rows) {
  const Tensor dense = row.contiguous();
  const T* from = dense.data<T>();
  T* to = rows.mutable_data<T>();
  const std::int64_t columns = rows.shape()[1];
  parallel_for(rows.shape()[0], std::max<std::int64_t>(1, 32768 / columns), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) std::copy_n(from, columns, to + i * columns);
  });
}

// Too small for a primitive: matmul's own way is faster.
bool is_small(std::int64_t rows, const Tensor& weight) { return rows * weight.numel() <= kSmall; }

// oneDNN's bfloat16 product takes its left side by rows; transposing it while it multiplies takes longer than doing so
// before.
bool is_worth_transposing(std::int64_t rows, const Tensor& weight) {
  return rows >= 256 && weight.shape()[0] >= 128 && weight.shape()[1] >= 128;
}

template <class T>
void add_rows(const Matrix<const T>& rows, std::int64_t begin, std::int64_t end, compute_t<T>* sums) {
  for (std::int64_t i = begin; i < end; ++i) {
    const T* row = rows.data + i * rows.row_stride;
    if (rows.column_stride == 1) {
      for (std::int64_t c = 0; c < rows.columns; ++c) sums[c] += static_cast<compute_t<T>>(row[c]);
    } else {
      for (std::int64_t c = 0; c < rows.columns; ++c) sums[c] += static_cast<compute_t<T>>(row[c * rows.column_stride]);
    }
  }
}

}  // namespace

template <>
void linear<DeviceType::cpu>(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& y) {
  if (x.dtype() != DType::float64 && x.shape()[1] > 0 && !is_small(x.shape()[0], weight)) {
    // The primitive adds the bias on the way. In float32 it takes the weights as they are: packing them each step would
    // cost what it saves, and with few rows it is up to 1.4 times faster than sgemm.
    const bool pack = x.dtype() == DType::bfloat16;
    const Tensor w = as_blas_matrix(weight), dense = bias.defined() ? bias.contiguous() : bias;
    if (onednn::run_matmul(as_blas_matrix(x), w.transpose(0, 1), dense, y, false, pack)) return;
  }
  if (bias.defined()) visit_floating("linear", y.dtype(), [&]<class T>() { repeat_row<T>(bias.to(y.dtype()), y); });
  matmul<DeviceType::cpu>(x, weight.to(x.dtype()).transpose(0, 1), y, bias.defined());
}

template <>
void linear_backward_input<DeviceType::cpu>(const Tensor& dy, const Tensor& weight, Tensor& dx) {
  if (dy.dtype() == DType::bfloat16 && dy.shape()[1] > 0 && !is_small(dy.shape()[0], weight) &&
      onednn::run_matmul(as_blas_matrix(dy), as_blas_matrix(weight), Tensor(), dx, false, true))
    return;
  matmul<DeviceType::cpu>(dy, weight.to(dy.dtype()), dx, false);
}

template <>
void linear_backward_weight<DeviceType::cpu>(const Tensor& dy, const Tensor& x, Tensor& dweight, bool accumulate) {
  if (dy.dtype() == DType::bfloat16 && is_worth_transposing(dy.shape()[0], dweight) && dy.strides()[1] == 1 &&
      is_blas_matrix(x) && is_blas_matrix(dweight) &&
      onednn::run_matmul(transposed_bfloat16(dy), x, Tensor(), dweight, accumulate, true))
    return;
  matmul<DeviceType::cpu>(dy.transpose(0, 1), x, dweight, accumulate);
}

template <>
void linear_backward_bias<DeviceType::cpu>(const Tensor& dy, Tensor& dbias, bool accumulate) {
  visit_floating("linear_backward_bias", dy.dtype(), [&]<class T>() {
    using Sum = compute_t<T>;
    const Matrix<const T> rows = matrix_of<T>(dy);
    const Tensor totals = sum_in_row_chunks<Sum, Sum>(
        rows.rows, rows.columns, rows_per_long_sum(rows.rows),
        [&](std::int64_t begin, std::int64_t end, Sum* sums) { add_rows(rows, begin, end, sums); });
    store_sums(totals.data<Sum>(), dbias, accumulate);
  });
}

}  // namespace tandem::core::kernels
