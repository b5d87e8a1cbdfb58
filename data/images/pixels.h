// From bytes of an image to normalised floats.
#pragma once

#include <array>
#include <cstdint>

namespace tandem::data {

/// Bytes of a pixel of a decoded image [H, W, 4]: red, green, blue, and one without meaning, so that a pixel is one
/// word.
inline constexpr std::int64_t kPixelBytes = 4;

/// Pixels of the largest image that is decoded: a file of a few bytes can claim four billion. The limit is Pillow's.
inline constexpr std::int64_t kMaxPixels = 178'956'970;

/// Mean and standard deviation of a channel whose values lie in [0, 1].
struct Normalization {
  float mean = 0;
  float deviation = 1;
};

/// (byte / 255 - mean) / deviation for each byte, rounded to float32 after each operation, as torchvision's transforms
/// do.
class PixelTable {
 public:
  explicit PixelTable(const Normalization& normalization) {
    for (std::size_t byte = 0; byte < values_.size(); ++byte)
      values_[byte] = (static_cast<float>(byte) / 255.0f - normalization.mean) / normalization.deviation;
  }
  float operator[](std::uint8_t byte) const { return values_[byte]; }

 private:
  std::array<float, 256> values_;
};

}  // namespace tandem::data
