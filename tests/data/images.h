// JPEG and PNG files and what Pillow makes of them (tests/golden/make_image_golden.py).
#pragma once

#include <string>

#include "tandem/data/images/pixels.h"
#include "tests/data/samples.h"
#include "tests/golden/golden_file.h"

namespace tandem::data {

using core::Tensor;

class GoldenImages {
 public:
  /// The bytes of a JPEG file.
  std::string file(const std::string& kind) { return bytes_of(kind + ".jpeg"); }
  /// Of a PNG file; its pixels are "png_" + kind.
  std::string png(const std::string& kind) { return bytes_of("png_" + kind + ".png"); }
  /// What they become, uint8 [H, W, 3].
  const Tensor& pixels(const std::string& name) { return golden_[name + ".rgb"]; }
  std::vector<std::int64_t> numbers(const std::string& name) {
    return golden_[name + ".box"].to_vector<std::int64_t>();
  }

 private:
  std::string bytes_of(const std::string& name) {
    const auto bytes = golden_[name].to_vector<std::uint8_t>();
    return {bytes.begin(), bytes.end()};
  }

  testing::GoldenFile golden_{"images.safetensors"};
};

/// `image` [H, W, kPixelBytes] against [H, W, 3]: every byte.
inline void expect_same_pixels(const Tensor& image, const Tensor& expected, const std::string& what) {
  ASSERT_EQ(image.shape(), (core::Shape{expected.size(0), expected.size(1), kPixelBytes})) << what;
  EXPECT_EQ(image.slice(2, 0, 3).to_vector<std::uint8_t>(), expected.to_vector<std::uint8_t>()) << what;
}

}  // namespace tandem::data
