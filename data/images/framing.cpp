#include "tandem/data/images/framing.h"

#include <algorithm>
#include <cmath>

namespace tandem::data {
namespace {

constexpr std::uint32_t kTries = 10;

// In [0, 1).
double unit(std::uint32_t word) { return static_cast<double>(word) * 0x1p-32; }

double between(const std::array<double, 2>& bounds, double share) {
  return bounds[0] + share * (bounds[1] - bounds[0]);
}

// In [0, count).
std::int64_t index_below(std::int64_t count, std::uint32_t word) {
  return static_cast<std::int64_t>(unit(word) * static_cast<double>(count));
}

// To the nearest, to even in the middle between two: as Python rounds.
std::int64_t rounded(double value) { return static_cast<std::int64_t>(std::nearbyint(value)); }

// The largest with an allowed aspect ratio, or nearest to that where an image is a line.
Box middle_box(std::int64_t height, std::int64_t width, const std::array<double, 2>& aspect_ratio) {
  const double ratio = static_cast<double>(width) / static_cast<double>(height);
  const auto at_least_1 = [](double value) { return std::max<std::int64_t>(rounded(value), 1); };
  Box box{.height = height, .width = width};
  if (ratio < aspect_ratio[0]) box.height = at_least_1(static_cast<double>(width) / aspect_ratio[0]);
  if (ratio > aspect_ratio[1]) box.width = at_least_1(static_cast<double>(height) * aspect_ratio[1]);
  box.top = (height - box.height) / 2;
  box.left = (width - box.width) / 2;
  return box;
}

Box random_box(std::int64_t height, std::int64_t width, const RandomCrop& crop, const core::PhiloxStream& random) {
  const std::array<double, 2> log_ratio{std::log(crop.aspect_ratio[0]), std::log(crop.aspect_ratio[1])};
  for (std::uint32_t i = 0; i < kTries; ++i) {
    const auto words = random.block(i);
    const double area = static_cast<double>(height * width) * between(crop.area, unit(words[0]));
    const double ratio = std::exp(between(log_ratio, unit(words[1])));
    Box box{.height = rounded(std::sqrt(area / ratio)), .width = rounded(std::sqrt(area * ratio))};
    if (box.height < 1 || box.width < 1 || box.height > height || box.width > width) continue;
    box.top = index_below(height - box.height + 1, words[2]);
    box.left = index_below(width - box.width + 1, words[3]);
    return box;
  }
  return middle_box(height, width, crop.aspect_ratio);
}

}  // namespace

Framing random_framing(std::int64_t height, std::int64_t width, std::int64_t side, const RandomCrop& crop,
                       const core::PhiloxStream& random) {
  return {.from = random_box(height, width, crop, random),
          .height = side,
          .width = side,
          .part = {.height = side, .width = side},
          .mirrored = unit(random.block(kTries)[0]) < crop.mirrored};
}

Framing center_framing(std::int64_t height, std::int64_t width, std::int64_t side, std::int64_t shorter) {
  Framing framing;
  framing.from = {.height = height, .width = width};
  framing.height = height <= width ? shorter : shorter * height / width;
  framing.width = width <= height ? shorter : shorter * width / height;
  framing.part = {.top = rounded(static_cast<double>(framing.height - side) / 2),
                  .left = rounded(static_cast<double>(framing.width - side) / 2),
                  .height = side,
                  .width = side};
  return framing;
}

}  // namespace tandem::data
