// GCC 12 takes the deliberately undefined registers of its own AVX-512 header for a mistake; the place it blames is in
// that header, so the pragma must come before it.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

#include "tandem/core/cpu/gemm.h"

#include <dnnl.h>

// Threads are ours: Eigen's own would choose blocks, and with them the last bit, by their number.
#define EIGEN_DONT_PARALLELIZE
#include <Eigen/Core>

#include "tandem/core/cpu/strided.h"
#include "tandem/core/parallel.h"

namespace tandem::core::cpu {
namespace {

// How BLAS is told of a row-major matrix: as it is, or as the transpose of one.
struct BlasLayout {
  char transposed;  // 'N' or 'T'
  std::int64_t leading;
};

template <class T>
BlasLayout blas_layout(const Matrix<T>& m) {
  if (m.column_stride == 1 || m.columns == 1)
    return {'N', m.rows == 1 ? std::max<std::int64_t>(1, m.columns) : m.row_stride};
  return {'T', m.columns == 1 ? std::max<std::int64_t>(1, m.rows) : m.column_stride};
}

bool steps_fit(std::int64_t inner, std::int64_t inner_stride, std::int64_t outer, std::int64_t outer_stride) {
  return (inner <= 1 || inner_stride == 1) && (outer <= 1 || outer_stride >= std::max<std::int64_t>(1, inner));
}

template <class T, int Order>
using EigenMap = Eigen::Map<Eigen::Matrix<std::remove_const_t<T>, Eigen::Dynamic, Eigen::Dynamic, Order>,
                            Eigen::Unaligned, Eigen::OuterStride<>>;

// Calls f with an Eigen map of the matrix in its own storage order: the order is part of Eigen's type.
template <class T, class F>
void with_eigen(const Matrix<T>& m, F&& f) {
  auto* data = const_cast<std::remove_const_t<T>*>(m.data);
  const BlasLayout layout = blas_layout(m);
  const Eigen::OuterStride<> stride(layout.leading);
  if (layout.transposed == 'N') {
    f(EigenMap<T, Eigen::RowMajor>(data, m.rows, m.columns, stride));
  } else {
    f(EigenMap<T, Eigen::ColMajor>(data, m.rows, m.columns, stride));
  }
}

// Rows or columns [begin, end).
template <class T>
Matrix<T> row_range(const Matrix<T>& m, std::int64_t begin, std::int64_t end) {
  return {m.data + begin * m.row_stride, end - begin, m.columns, m.row_stride, m.column_stride};
}
template <class T>
Matrix<T> column_range(const Matrix<T>& m, std::int64_t begin, std::int64_t end) {
  return {m.data + begin * m.column_stride, m.rows, end - begin, m.row_stride, m.column_stride};
}

void eigen_gemm_piece(const Matrix<const double>& a, const Matrix<const double>& b, const Matrix<double>& out,
                      bool accumulate) {
  with_eigen(a, [&](const auto& left) {
    with_eigen(b, [&](const auto& right) {
      with_eigen(out, [&](auto result) {
        if (accumulate) {
          result.noalias() += left * right;
        } else {
          result.noalias() = left * right;
        }
      });
    });
  });
}

void eigen_gemm(const Matrix<const double>& a, const Matrix<const double>& b, const Matrix<double>& out,
                bool accumulate) {
  // In fixed pieces of the longer side: Eigen's blocking, and so the last bit, depends on the size that it is given.
  constexpr std::int64_t kPiece = 128;
  if (out.rows >= out.columns) {
    parallel_chunks(out.rows, kPiece, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
      eigen_gemm_piece(row_range(a, begin, end), b, row_range(out, begin, end), accumulate);
    });
  } else {
    parallel_chunks(out.columns, kPiece, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
      eigen_gemm_piece(a, column_range(b, begin, end), column_range(out, begin, end), accumulate);
    });
  }
}

void onednn_gemm(const Matrix<const float>& a, const Matrix<const float>& b, const Matrix<float>& out,
                 bool accumulate) {
  const BlasLayout la = blas_layout(a), lb = blas_layout(b), lo = blas_layout(out);
  const dnnl_status_t status =
      dnnl_sgemm(la.transposed, lb.transposed, out.rows, out.columns, a.columns, 1.0f, a.data, la.leading, b.data,
                 lb.leading, accumulate ? 1.0f : 0.0f, out.data, lo.leading);
  if (status != dnnl_success)
    fail("matmul: oneDNN refused [{}, {}] x [{}, {}] (status {})", a.rows, a.columns, b.rows, b.columns,
         static_cast<int>(status));
}

}  // namespace

bool is_blas_matrix(const Tensor& tensor) {
  const int r = tensor.rank();
  const std::int64_t rows = tensor.shape()[r - 2], columns = tensor.shape()[r - 1];
  const std::int64_t row_stride = tensor.strides()[r - 2], column_stride = tensor.strides()[r - 1];
  return steps_fit(columns, column_stride, rows, row_stride) || steps_fit(rows, row_stride, columns, column_stride);
}

Tensor as_blas_matrix(const Tensor& tensor) { return is_blas_matrix(tensor) ? tensor : tensor.contiguous(); }

template <class T>
void gemm(const Matrix<const T>& a, const Matrix<const T>& b, const Matrix<T>& out, bool accumulate) {
  if (out.rows == 0 || out.columns == 0 || (a.columns == 0 && accumulate)) return;
  if (out.column_stride != 1 && out.columns > 1)
    return gemm<T>(b.transposed(), a.transposed(), out.transposed(), accumulate);
  if (a.columns == 0) {
    for (std::int64_t i = 0; i < out.rows; ++i) std::fill_n(out.data + i * out.row_stride, out.columns, T{0});
  } else if (is_small_gemm(out.rows, out.columns, a.columns)) {
    small_gemm<T, T>(a, b, out, accumulate);
  } else if constexpr (std::is_same_v<T, float>) {
    onednn_gemm(a, b, out, accumulate);
  } else {
    eigen_gemm(a, b, out, accumulate);
  }
}

template void gemm<float>(const Matrix<const float>&, const Matrix<const float>&, const Matrix<float>&, bool);
template void gemm<double>(const Matrix<const double>&, const Matrix<const double>&, const Matrix<double>&, bool);

void add_into(const Tensor& source, Tensor& destination) {
  if (source.numel() == 0) return;
  const auto plan = make_plan<2>(destination.shape(), {&destination.strides(), &source.strides()});
  const auto add = [&]<class To, class From>() {
    To* to = destination.mutable_data<To>();
    const From* from = source.data<From>();
    for_each_run(plan, [&](const auto& offsets, std::int64_t n, const auto& strides) {
      To* out = to + offsets[0];
      const From* in = from + offsets[1];
      using Sum = compute_t<To>;
      for (std::int64_t i = 0; i < n; ++i)
        out[i * strides[0]] =
            static_cast<To>(static_cast<Sum>(out[i * strides[0]]) + static_cast<Sum>(in[i * strides[1]]));
    });
  };
  visit_floating("add_into", destination.dtype(), [&]<class To>() {
    source.dtype() == destination.dtype() ? add.template operator()<To, To>() : add.template operator()<To, float>();
  });
}

}  // namespace tandem::core::cpu
