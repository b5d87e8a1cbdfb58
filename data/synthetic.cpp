#include "tandem/data/synthetic.h"

#include <algorithm>
#include <array>
#include <numbers>

#include "tandem/core/ops/random_fill.h"
#include "tandem/core/parallel.h"

namespace tandem::data {
namespace {

constexpr std::int64_t kCells = 4;

// Uniform in [-1, 1) times sqrt(3): deviation 1.
float noise(std::uint32_t word) {
  return (static_cast<float>(word >> 8) * 0x1p-23f - 1.0f) * std::numbers::sqrt3_v<float>;
}

}  // namespace

Synthetic::Synthetic(const SyntheticOptions& options) : options_(options) {
  if (options.size < 0 || options.size >> 32 != 0)
    core::fail("synthetic: {} samples, needed 0 to 2^32 - 1", options.size);
  if (options.first >> 32 != 0 || (options.first + options.size) >> 32 != 0)
    core::fail("synthetic: {} samples from number {} on, needed numbers from 0 to 2^32 - 1", options.size,
               options.first);
  if (options.classes < 1) core::fail("synthetic: {} classes, needed 1 or more", options.classes);
  const core::Shape& shape = options.sample_shape;
  if (shape.rank() >= core::kMaxRank) core::fail("synthetic: sample shape {} leaves no dimension for N", shape.str());
  core::numel(shape);  // throws where there is no such shape
  for (int i = 0; i < shape.rank(); ++i)
    (i == shape.rank() - 1 ? width_ : i == shape.rank() - 2 ? height_ : planes_) *= shape[i];
  means_ = core::Tensor::empty({options.classes, planes_, kCells, kCells}, {.device = core::kCpu});
  core::fill_normal(means_, 0, 1, sample_stream({.seed = options.seed}, 0, Draw::class_mean));
}

void Synthetic::read_sample(std::int64_t index, float* out) const {
  const core::PhiloxStream stream = sample_stream({.seed = options_.seed}, index, Draw::noise);
  const std::int64_t elements = planes_ * height_ * width_;
  constexpr std::int64_t kWords = 1024;  // a multiple of a block's four
  std::array<std::uint32_t, kWords> words;
  for (std::int64_t first = 0; first < elements; first += kWords) {
    const std::int64_t count = std::min(elements - first, kWords);
    stream.words(static_cast<std::uint32_t>(first / 4), words.data(), count);
    std::transform(words.begin(), words.begin() + count, out + first, noise);
  }
  const float* mean = means_.data<float>() + index % options_.classes * planes_ * kCells * kCells;
  for (std::int64_t row = 0; row < planes_ * height_; ++row, out += width_) {
    const std::int64_t plane = row / height_, cell_y = row % height_ * kCells / height_;
    for (std::int64_t cell_x = 0; cell_x < kCells; ++cell_x) {
      const float value = mean[(plane * kCells + cell_y) * kCells + cell_x];
      // Column x lies in the cell x * kCells / width.
      const std::int64_t begin = (cell_x * width_ + kCells - 1) / kCells;
      const std::int64_t end = ((cell_x + 1) * width_ + kCells - 1) / kCells;
      for (std::int64_t x = begin; x < end; ++x) out[x] += value;
    }
  }
}

void Synthetic::read_into(std::span<const std::int64_t> indices, const EpochContext&, float* input,
                          std::int64_t* target) const {
  const std::int64_t elements = core::numel(options_.sample_shape);
  core::parallel_for(static_cast<std::int64_t>(indices.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t index = options_.first + indices[static_cast<std::size_t>(row)];
      target[row] = index % options_.classes;
      if (elements > 0) read_sample(index, input + row * elements);
    }
  });
}

}  // namespace tandem::data
