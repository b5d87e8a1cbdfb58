#include "tandem/data/images/resize.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tandem/core/error.h"
#include "tandem/data/images/pixels.h"

namespace tandem::data {
namespace {

using core::Tensor;

constexpr int kPrecision = 22;  // binary digits of a weight; with 8 of a pixel a sum fits into 31
constexpr std::int32_t kHalf = 1 << (kPrecision - 1);

// Numbers to compute with: the channels of a pixel at once.
using Pixel = std::int32_t __attribute__((vector_size(kPixelBytes * sizeof(std::int32_t))));

// One axis: which inputs each of the outputs [first, first + count) is the mean of.
struct Axis {
  struct Window {
    std::int64_t begin, size;
  };

  Axis(std::int64_t inputs, std::int64_t outputs, std::int64_t first, std::int64_t count);

  std::int64_t outputs() const { return static_cast<std::int64_t>(windows.size()); }
  const std::int32_t* weights_of(std::int64_t output) const { return weights.data() + output * most; }
  // Windows begin and end in the order of the outputs.
  std::int64_t begin() const { return windows.front().begin; }
  std::int64_t end() const { return windows.back().begin + windows.back().size; }

  std::vector<Window> windows;
  std::int64_t most;                  // inputs of a window
  std::vector<std::int32_t> weights;  // [outputs, most]
};

// Up where two are as near.
std::int64_t nearest(double value) { return static_cast<std::int64_t>(std::floor(value + 0.5)); }

Axis::Axis(std::int64_t inputs, std::int64_t outputs, std::int64_t first, std::int64_t count) {
  const double step = static_cast<double>(inputs) / static_cast<double>(outputs);
  const double reach = std::max(step, 1.0);  // of the triangle, to either side
  most = 2 * static_cast<std::int64_t>(std::ceil(reach)) + 1;
  weights.resize(static_cast<std::size_t>(count * most));
  std::vector<double> exact(static_cast<std::size_t>(most));
  for (std::int64_t output = first; output < first + count; ++output) {
    const double center = (static_cast<double>(output) + 0.5) * step;
    const auto begin = std::max(nearest(center - reach), std::int64_t{0});
    const auto end = std::min(nearest(center + reach), inputs);
    double sum = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      const double distance = std::abs(static_cast<double>(i) - center + 0.5) / reach;
      sum += exact[static_cast<std::size_t>(i - begin)] = std::max(1.0 - distance, 0.0);
    }
    std::int32_t* rounded = weights.data() + (output - first) * most;
    for (std::int64_t i = 0; i < end - begin; ++i)
      rounded[i] = static_cast<std::int32_t>(nearest(exact[static_cast<std::size_t>(i)] / sum * (1 << kPrecision)));
    windows.push_back({.begin = begin, .size = end - begin});
  }
}

// `row` [inputs] to `sums` [outputs], still to be rounded.
void resize_row(const Pixel* row, const Axis& axis, Pixel* sums) {
  for (std::int64_t x = 0; x < axis.outputs(); ++x) {
    const Axis::Window window = axis.windows[static_cast<std::size_t>(x)];
    const std::int32_t* weights = axis.weights_of(x);
    Pixel sum = Pixel{} + kHalf;
    for (std::int64_t i = 0; i < window.size; ++i) sum += row[window.begin + i] * weights[i];
    sums[x] = sum;
  }
}

void round_sums(const std::int32_t* sums, std::int64_t n, std::uint8_t* out) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<std::uint8_t>(sums[i] >> kPrecision);
}

// `rows` rows of pixels from `image` on, `stride` bytes apart, to `out` [rows, outputs].
void resize_rows(const std::uint8_t* image, std::int64_t rows, std::int64_t stride, const Axis& axis,
                 std::uint8_t* out) {
  const std::int64_t begin = axis.begin() * kPixelBytes, end = axis.end() * kPixelBytes;
  std::vector<Pixel> row(static_cast<std::size_t>(axis.end())), sums(static_cast<std::size_t>(axis.outputs()));
  auto* row_numbers = reinterpret_cast<std::int32_t*>(row.data());
  const std::int64_t out_bytes = axis.outputs() * kPixelBytes;
  for (std::int64_t y = 0; y < rows; ++y, image += stride, out += out_bytes) {
    std::copy(image + begin, image + end, row_numbers + begin);
    resize_row(row.data(), axis, sums.data());
    round_sums(reinterpret_cast<const std::int32_t*>(sums.data()), out_bytes, out);
  }
}

// The weighted mean of `count` rows of `bytes` bytes; `sums` is for working.
void mean_of_rows(const std::uint8_t* rows, const std::int32_t* weights, std::int64_t count, std::int64_t bytes,
                  std::int32_t* sums, std::uint8_t* out) {
  std::fill_n(sums, bytes, kHalf);
  for (std::int64_t row = 0; row < count; ++row, rows += bytes)
    for (std::int64_t i = 0; i < bytes; ++i) sums[i] += weights[row] * rows[i];
  round_sums(sums, bytes, out);
}

void check_inside(const char* what, const Box& box, std::int64_t height, std::int64_t width) {
  if (box.height < 1 || box.width < 1 || box.top < 0 || box.left < 0 || box.top + box.height > height ||
      box.left + box.width > width)
    core::fail("resize: {} of {} x {} at ({}, {}), needed at least 1 x 1 within {} x {}", what, box.height, box.width,
               box.top, box.left, height, width);
}

}  // namespace

Tensor resize(const Tensor& image, const Framing& framing) {
  if (image.rank() != 3 || image.size(2) != kPixelBytes || image.dtype() != core::DType::uint8 ||
      !image.is_contiguous())
    core::fail("resize: needs contiguous uint8 [H, W, {}], got {} {}", kPixelBytes, core::name(image.dtype()),
               image.shape().str());
  const Box& from = framing.from;
  const Box& part = framing.part;
  check_inside("a source", from, image.size(0), image.size(1));
  check_inside("a part", part, framing.height, framing.width);

  const Axis across(from.width, framing.width, part.left, part.width);
  const Axis down(from.height, framing.height, part.top, part.height);
  const std::int64_t row_bytes = part.width * kPixelBytes, image_row_bytes = image.size(1) * kPixelBytes;

  Tensor narrow = Tensor::empty({down.end() - down.begin(), part.width, kPixelBytes},
                                {.dtype = core::DType::uint8, .device = core::kCpu});
  auto* narrow_rows = narrow.mutable_data<std::uint8_t>();
  const std::uint8_t* corner = image.data<std::uint8_t>() + from.top * image_row_bytes + from.left * kPixelBytes;
  resize_rows(corner + down.begin() * image_row_bytes, narrow.size(0), image_row_bytes, across, narrow_rows);

  Tensor result =
      Tensor::empty({part.height, part.width, kPixelBytes}, {.dtype = core::DType::uint8, .device = core::kCpu});
  auto* out = result.mutable_data<std::uint8_t>();
  std::vector<std::int32_t> sums(static_cast<std::size_t>(row_bytes));
  for (std::int64_t y = 0; y < part.height; ++y) {
    const Axis::Window window = down.windows[static_cast<std::size_t>(y)];
    mean_of_rows(narrow_rows + (window.begin - down.begin()) * row_bytes, down.weights_of(y), window.size, row_bytes,
                 sums.data(), out + y * row_bytes);
  }
  return result;
}

}  // namespace tandem::data
