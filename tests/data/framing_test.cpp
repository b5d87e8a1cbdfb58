#include "tandem/data/images/framing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tandem/data/dataset.h"

namespace tandem::data {
namespace {

Framing drawn(std::int64_t height, std::int64_t width, std::int64_t index, const RandomCrop& crop = {}) {
  return random_framing(height, width, 224, crop, sample_stream({.seed = 1}, index, Draw::augment));
}

TEST(RandomFraming, LiesWithinTheImage) {
  for (const auto& [height, width] : {std::pair{375, 500}, {1, 1}, {2, 1}, {1, 65'500}, {900, 7}, {224, 224}}) {
    for (std::int64_t i = 0; i < 500; ++i) {
      const Framing framing = drawn(height, width, i);
      const Box& box = framing.from;
      ASSERT_GE(std::min({box.top, box.left}), 0);
      ASSERT_GE(std::min({box.height, box.width}), 1);
      ASSERT_LE(box.top + box.height, height);
      ASSERT_LE(box.left + box.width, width);
      ASSERT_EQ(framing.height, 224);
      ASSERT_EQ(framing.width, 224);
      ASSERT_EQ(framing.part, (Box{0, 0, 224, 224}));
    }
  }
}

// Ten bins, each of which should hold a tenth.
struct Histogram {
  std::array<int, 10> bins{};
  void add(double share) { ++bins[static_cast<std::size_t>(std::clamp(share, 0.0, 0.999999) * 10)]; }
  void expect_uniform(const char* what) const {
    int all = 0;
    for (const int bin : bins) all += bin;
    for (const int bin : bins) EXPECT_NEAR(bin, all / 10.0, 5 * std::sqrt(all * 0.09)) << what;
  }
};

// At most half of a square's area always fits, so nothing is drawn again.
TEST(RandomFraming, AreaAspectRatioPlaceAndMirrorAreUniform) {
  const RandomCrop crop{.area = {0.08, 0.5}, .mirrored = 0.25};
  constexpr std::int64_t kSide = 10'000;
  constexpr int kDraws = 20'000;
  Histogram area, ratio, top, left;
  int mirrored = 0;
  for (std::int64_t i = 0; i < kDraws; ++i) {
    const Framing framing = drawn(kSide, kSide, i, crop);
    const auto height = static_cast<double>(framing.from.height), width = static_cast<double>(framing.from.width);
    area.add((height * width / (kSide * kSide) - 0.08) / 0.42);
    ratio.add(0.5 + std::log(width / height) / std::log(4.0 / 3) / 2);
    top.add(static_cast<double>(framing.from.top) / (kSide - height));
    left.add(static_cast<double>(framing.from.left) / (kSide - width));
    mirrored += framing.mirrored;
  }
  area.expect_uniform("area");
  ratio.expect_uniform("aspect ratio");
  top.expect_uniform("top");
  left.expect_uniform("left");
  EXPECT_NEAR(mirrored, kDraws / 4.0, 5 * std::sqrt(kDraws * 0.1875));
}

// Means of top, left, height and width of 60,000 boxes that torchvision drew, where boxes often do not fit.
TEST(RandomFraming, BoxesAreDistributedAsTorchvisions) {
  struct Case {
    std::int64_t height, width;
    std::array<double, 4> means;
  };
  for (const auto& [height, width, means] :
       {Case{375, 500, {52.40, 108.78, 270.03, 281.71}}, Case{100, 700, {3.319, 293.88, 93.387, 112.28}}}) {
    constexpr int kDraws = 20'000;
    std::array<double, 4> sums{};
    for (std::int64_t i = 0; i < kDraws; ++i) {
      const Box box = drawn(height, width, i).from;
      sums[0] += static_cast<double>(box.top);
      sums[1] += static_cast<double>(box.left);
      sums[2] += static_cast<double>(box.height);
      sums[3] += static_cast<double>(box.width);
    }
    for (std::size_t k = 0; k < 4; ++k)
      EXPECT_NEAR(sums[k] / kDraws, means[k], 0.01 * static_cast<double>(k % 2 ? width : height));
  }
}

TEST(RandomFraming, TheMiddleWhereNothingFits) {
  EXPECT_EQ(drawn(3, 100, 0).from, (Box{0, 48, 3, 4}));
  EXPECT_EQ(drawn(100, 3, 0).from, (Box{48, 0, 4, 3}));
  EXPECT_EQ(drawn(10, 1, 0, {.area = {1, 1}, .aspect_ratio = {4, 4}}).from, (Box{4, 0, 1, 1}));
}

TEST(CenterFraming, IsTorchvisionsResizeAndCrop) {
  const Framing wide = center_framing(375, 500, 224, 256);
  EXPECT_EQ(wide.from, (Box{0, 0, 375, 500}));
  EXPECT_EQ(wide.height, 256);
  EXPECT_EQ(wide.width, 341);
  EXPECT_EQ(wide.part, (Box{16, 58, 224, 224}));  // 58.5, to the even one
  EXPECT_FALSE(wide.mirrored);
  const Framing high = center_framing(500, 375, 224, 256);
  EXPECT_EQ(high.height, 341);
  EXPECT_EQ(high.part, (Box{58, 16, 224, 224}));
  EXPECT_EQ(center_framing(7, 7, 224, 224).part, (Box{0, 0, 224, 224}));
}

}  // namespace
}  // namespace tandem::data
