#include "tandem/data/images/resize.h"

#include "tandem/data/images/framing.h"
#include "tandem/data/images/jpeg.h"
#include "tests/data/images.h"

namespace tandem::data {
namespace {

// The numbers of a golden framing (tests/golden/make_image_golden.py).
Framing framing_of(const std::vector<std::int64_t>& n) {
  const std::int64_t side = n[4];
  if (n[5] < 0) return center_framing(n[2], n[3], side, -n[5]);
  Framing framing;
  framing.from = {.top = n[0], .left = n[1], .height = n[2], .width = n[3]};
  framing.height = framing.width = side;
  framing.part = {.height = side, .width = side};
  framing.mirrored = n[5] != 0;
  return framing;
}

Tensor mirrored(const Tensor& image) {
  const auto bytes = image.to_vector<std::uint8_t>();
  auto turned = bytes;
  const auto width = static_cast<std::size_t>(image.size(1));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const std::size_t row = i / (3 * width), x = i / 3 % width;
    turned[(row * width + width - 1 - x) * 3 + i % 3] = bytes[i];
  }
  return Tensor::from(turned, image.shape(), core::kCpu);
}

TEST(Resize, PixelsArePillows) {
  GoldenImages golden;
  const Tensor photo = decode_jpeg(golden.file("photo"), "photo.jpg");
  for (const char* name : {"whole", "reduced", "enlarged", "flat", "same", "one", "middle", "middle_odd",
                           "middle_enlarged", "middle_all"}) {
    const Framing framing = framing_of(golden.numbers(name));
    const Tensor& expected = golden.pixels(name);
    expect_same_pixels(resize(photo, framing), framing.mirrored ? mirrored(expected) : expected, name);
  }
}

// A triangle of the width that antialiasing needs, in float64 and both directions at once.
TEST(Resize, IsAWeightedMean) {
  const std::int64_t height = 19, width = 23;
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(height * width * kPixelBytes));
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i * i * 7 + i / 5);
  const Tensor image = Tensor::from(bytes, {height, width, kPixelBytes}, core::kCpu);
  Framing framing{.from = {2, 3, 16, 20}, .height = 7, .width = 31, .part = {1, 4, 5, 22}};
  const auto result = resize(image, framing).to_vector<std::uint8_t>();
  const auto weight = [](std::int64_t output, std::int64_t input, double step) {
    return std::max(0.0, 1 - std::abs((static_cast<double>(output) + 0.5) * step - (static_cast<double>(input) + 0.5)) /
                                 std::max(1.0, step));
  };
  std::size_t at = 0;
  for (std::int64_t y = 1; y < 6; ++y)
    for (std::int64_t x = 4; x < 26; ++x)
      for (std::int64_t c = 0; c < kPixelBytes; ++c, ++at) {
        double sum = 0, weights = 0;
        for (std::int64_t from_y = 0; from_y < 16; ++from_y)
          for (std::int64_t from_x = 0; from_x < 20; ++from_x) {
            const double w = weight(y, from_y, 16.0 / 7) * weight(x, from_x, 20.0 / 31);
            weights += w;
            sum += w * bytes[static_cast<std::size_t>(((2 + from_y) * width + 3 + from_x) * kPixelBytes + c)];
          }
        ASSERT_NEAR(result[at], sum / weights, 1.0) << y << " " << x << " " << c;
      }
}

// One row of 60,000 pixels to 256 rows is an image of 15 million columns: only its middle is ever computed.
TEST(Resize, ALineIsNotBlownUp) {
  const Tensor line = Tensor::full({1, 60'000, kPixelBytes}, 77, {.dtype = core::DType::uint8, .device = core::kCpu});
  const Tensor middle = resize(line, center_framing(1, 60'000, 224, 256));
  EXPECT_EQ(middle.shape(), (core::Shape{224, 224, kPixelBytes}));
  EXPECT_EQ(middle.to_vector<int>(), std::vector<int>(224 * 224 * 4, 77));
}

TEST(Resize, WrongArguments) {
  const Tensor image = Tensor::zeros({4, 5, kPixelBytes}, {.dtype = core::DType::uint8, .device = core::kCpu});
  const Framing good{.from = {0, 0, 4, 5}, .height = 3, .width = 3, .part = {0, 0, 3, 3}};
  Framing framing = good;
  framing.from.left = 1;
  TANDEM_EXPECT_ERROR(resize(image, framing),
                      "resize: a source of 4 x 5 at (0, 1), needed at least 1 x 1 within 4 x 5");
  framing = good;
  framing.part.height = 0;
  TANDEM_EXPECT_ERROR(resize(image, framing), "resize: a part of 0 x 3 at (0, 0), needed at least 1 x 1 within 3 x 3");
  TANDEM_EXPECT_ERROR(resize(Tensor::zeros({4, 5, 3}, {.dtype = core::DType::uint8, .device = core::kCpu}), good),
                      "resize: needs contiguous uint8 [H, W, 4], got uint8 [4, 5, 3]");
  TANDEM_EXPECT_ERROR(resize(Tensor::zeros({4, 5, 4}), good), "got float32 [4, 5, 4]");
}

}  // namespace
}  // namespace tandem::data
