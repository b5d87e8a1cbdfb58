// Helpers of the kernel tests: repeatable numbers, every memory layout, and comparison with a reference in float64.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tandem/core/random.h"
#include "tandem/core/tensor.h"

namespace tandem::core::kernel_check {

inline const std::vector<DType> kFloating{DType::float32, DType::float64, DType::bfloat16};

/// Values in [-1, 1) that bfloat16 can hold, so that all dtypes compute with the same inputs.
inline Tensor numbers(const Shape& shape, DType dtype, std::uint32_t seed = 1) {
  Tensor t = Tensor::empty(shape, {.dtype = DType::float32});
  if (t.numel() > 0) fill_uniform(t, -1, 1, RandomContext{.seed = seed}.stream(0));
  return t.to(DType::bfloat16).to(dtype);
}

enum class Layout { contiguous, channels_last, transposed, stepped, offset };
inline const std::vector<Layout> kLayouts{Layout::contiguous, Layout::channels_last, Layout::transposed,
                                          Layout::stepped, Layout::offset};

/// The same values in other memory.
inline Tensor laid_out(const Tensor& t, Layout layout) {
  if (t.numel() == 0) return t;
  switch (layout) {
    case Layout::contiguous:
      return t;
    case Layout::channels_last:
      return t.rank() == 4 ? t.contiguous(MemoryFormat::channels_last) : t;
    case Layout::transposed:
      return t.rank() < 2 ? t
                          : t.transpose(t.rank() - 1, t.rank() - 2).contiguous().transpose(t.rank() - 1, t.rank() - 2);
    case Layout::stepped: {
      Shape wide = t.shape();
      wide[wide.rank() - 1] *= 2;
      return Tensor::full(wide, std::nan(""), {.dtype = t.dtype()}).slice(-1, 0, wide.back(), 2).copy_from(t);
    }
    case Layout::offset: {
      Shape longer = t.shape();
      longer[0] += 2;
      return Tensor::full(longer, std::nan(""), {.dtype = t.dtype()}).slice(0, 1, longer[0] - 1).copy_from(t);
    }
  }
  return t;
}

/// `scale` is the size of the sums that were made: what rounding is relative to.
inline void expect_close(const Tensor& got, const std::vector<double>& wanted, double scale, const std::string& what,
                         DType precision) {
  const double unit = precision == DType::float64 ? 1e-13 : precision == DType::float32 ? 2e-6 : 8e-3;
  const std::vector<double> values = got.to_vector<double>();
  ASSERT_EQ(values.size(), wanted.size()) << what;
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_NEAR(values[i], wanted[i], unit * (scale + std::abs(wanted[i])))
        << what << " at " << i << " of " << got.shape().str();
}
inline void expect_close(const Tensor& got, const std::vector<double>& wanted, double scale, const std::string& what) {
  expect_close(got, wanted, scale, what, got.dtype());
}

template <class F>
void expect_error(F&& f, const std::string& part) {
  try {
    f();
    FAIL() << "no error; expected: " << part;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

}  // namespace tandem::core::kernel_check
