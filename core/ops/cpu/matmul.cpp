#include "tandem/core/ops/matmul.h"

#include "tandem/core/cpu/gemm.h"
#include "tandem/core/cpu/onednn.h"
#include "tandem/core/parallel.h"

namespace tandem::core::kernels {
using namespace cpu;
namespace {

// Multiply-adds of one matrix from which on oneDNN's own threads are the better ones.
constexpr std::int64_t kLargeMatrix = std::int64_t{1} << 24;

// Offsets of matrix `index` of the batch in up to three operands.
struct BatchOffsets {
  std::int64_t a = 0, b = 0, out = 0;
};

BatchOffsets offsets_of(std::int64_t index, const Tensor& a, const Tensor& b, const Tensor& out) {
  BatchOffsets offsets;
  for (int d = out.rank() - 3; d >= 0; --d) {
    const std::int64_t i = index % out.shape()[d];
    index /= out.shape()[d];
    offsets.a += i * a.strides()[d];
    offsets.b += i * b.strides()[d];
    offsets.out += i * out.strides()[d];
  }
  return offsets;
}

template <class T>
void multiply(const Tensor& a, const Tensor& b, Tensor& out, bool accumulate) {
  const Matrix<const T> first_a = matrix_of<T>(a), first_b = matrix_of<T>(b);
  const Matrix<T> first_out = mutable_matrix_of<T>(out);
  const auto one = [&](std::int64_t index) {
    const BatchOffsets offsets = offsets_of(index, a, b, out);
    Matrix<const T> ma = first_a, mb = first_b;
    Matrix<T> mo = first_out;
    ma.data += offsets.a;
    mb.data += offsets.b;
    mo.data += offsets.out;
    gemm<T>(ma, mb, mo, accumulate);
  };
  std::int64_t batch = 1;
  for (int d = 0; d < out.rank() - 2; ++d) batch *= out.shape()[d];
  const std::int64_t work = first_a.rows * first_a.columns * first_b.columns;
  if (batch == 1 || (work >= kLargeMatrix && batch % num_threads() != 0)) {
    for (std::int64_t i = 0; i < batch; ++i) one(i);
    return;
  }
  parallel_for(batch, std::max<std::int64_t>(1, 65536 / std::max<std::int64_t>(1, work)),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) one(i);
               });
}

// [..., rows, columns] as [batch, rows, columns]; a copy where the batch has no single stride.
Tensor one_batch_dimension(const Tensor& t) {
  if (t.rank() == 3 || t.rank() == 2) return t;
  std::int64_t batch = 1;
  for (int d = 0; d < t.rank() - 2; ++d) batch *= t.shape()[d];
  return t.reshape({batch, t.shape()[t.rank() - 2], t.shape().back()});
}

// A matrix that repeats over the batch, once.
Tensor without_repeats(const Tensor& t) {
  return t.rank() == 3 && t.strides()[0] == 0 && t.shape()[0] > 1 ? t.slice(0, 0, 1) : t;
}

// oneDNN's bfloat16 product is twice as fast as ours in float, and so worth its call earlier.
constexpr std::int64_t kSmallBfloat16 = 1 << 16;

bool is_small(const Tensor& a, const Tensor& out) {
  const std::int64_t m = out.shape()[0], n = out.shape()[1], k = a.shape()[1];
  return m * n <= kSmallBfloat16 / 2 && m * n * k <= kSmallBfloat16 && is_small_gemm(m, n, k);
}

void small_bfloat16(const Tensor& a, const Tensor& b, Tensor& out, bool accumulate) {
  alignas(64) float sums[kSmallBfloat16 / 2];
  const Matrix<const bfloat16> ma = matrix_of<bfloat16>(a), mb = matrix_of<bfloat16>(b);
  const std::int64_t m = ma.rows, n = mb.columns;
  small_gemm<float, bfloat16>(ma, mb, Matrix<float>{sums, m, n, n, 1}, false);
  const auto store = [&]<class To>() {
    const Matrix<To> to = mutable_matrix_of<To>(out);
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        To* place = to.data + i * to.row_stride + j * to.column_stride;
        *place = static_cast<To>(accumulate ? static_cast<float>(*place) + sums[i * n + j] : sums[i * n + j]);
      }
  };
  out.dtype() == DType::float32 ? store.operator()<float>() : store.operator()<bfloat16>();
}

void multiply_bfloat16(const Tensor& a, const Tensor& b, Tensor& out, bool accumulate) {
  if (a.shape().back() == 0) {
    if (!accumulate) out.fill(0);
    return;
  }
  if (out.rank() == 2 && is_small(a, out)) return small_bfloat16(a, b, out, accumulate);
  const Tensor left = without_repeats(one_batch_dimension(a)), right = without_repeats(one_batch_dimension(b));
  Shape flat = out.shape();
  Strides strides = out.strides();
  if (out.rank() > 3) {
    std::int64_t batch = 1;
    for (int d = 0; d < out.rank() - 2; ++d) batch *= out.shape()[d];
    flat = {batch, out.shape()[out.rank() - 2], out.shape().back()};
    if (!out.can_view_as(flat, &strides)) strides = Strides{};
  }
  if (strides.rank() == flat.rank() && is_blas_matrix(out)) {
    Tensor view(out.storage(), flat, strides, out.offset(), out.dtype());
    if (onednn::run_matmul(left, right, Tensor(), view, accumulate, false)) return;
  }
  Tensor sums = Tensor::empty(out.shape(), {.dtype = DType::float32, .device = kCpu});
  multiply<float>(as_blas_matrix(a.to(DType::float32)), as_blas_matrix(b.to(DType::float32)), sums, false);
  accumulate ? add_into(sums, out) : static_cast<void>(out.copy_from(sums));
}

}  // namespace

template <>
void matmul<DeviceType::cpu>(const Tensor& a, const Tensor& b, Tensor& out, bool accumulate) {
  // One matrix for the whole batch on the right: the batch is more rows on the left.
  if (out.rank() > 2 && b.strides()[0] == 0) {
    bool shared = true;
    for (int d = 0; d < out.rank() - 2; ++d) shared = shared && (b.strides()[d] == 0 || b.shape()[d] == 1);
    Strides strides_a, strides_out;
    const Shape flat_a{out.numel() / out.shape().back(), a.shape().back()};
    const Shape flat_out{flat_a[0], out.shape().back()};
    if (shared && a.numel() > 0 && a.can_view_as(flat_a, &strides_a) && out.can_view_as(flat_out, &strides_out)) {
      const int r = b.rank();
      const Tensor matrix(b.storage(), {b.shape()[r - 2], b.shape()[r - 1]}, {b.strides()[r - 2], b.strides()[r - 1]},
                          b.offset(), b.dtype());
      Tensor rows(out.storage(), flat_out, strides_out, out.offset(), out.dtype());
      return matmul<DeviceType::cpu>(Tensor(a.storage(), flat_a, strides_a, a.offset(), a.dtype()), matrix, rows,
                                     accumulate);
    }
  }
  if (!is_blas_matrix(out)) {
    Tensor dense = Tensor::empty(out.shape(), out.options());
    matmul<DeviceType::cpu>(a, b, dense, false);
    return accumulate ? add_into(dense, out) : static_cast<void>(out.copy_from(dense));
  }
  visit_floating("matmul", a.dtype(), [&]<class T>() {
    if constexpr (std::is_same_v<T, bfloat16>) {
      multiply_bfloat16(as_blas_matrix(a), as_blas_matrix(b), out, accumulate);
    } else {
      multiply<T>(as_blas_matrix(a), as_blas_matrix(b), out, accumulate);
    }
  });
}

}  // namespace tandem::core::kernels
