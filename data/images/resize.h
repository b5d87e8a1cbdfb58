// Parts of images, resized as Pillow's BILINEAR does, to the bit.
//
// Each output pixel is a weighted mean of the inputs under a triangle as wide as two output pixels, or as two input
// pixels where the image grows: so reducing an image averages and does not alias. One pass along rows, rounded to
// bytes, then one along columns; weights have 22 binary digits.
#pragma once

#include "tandem/core/tensor.h"

namespace tandem::data {

/// A rectangle of pixels.
struct Box {
  std::int64_t top = 0, left = 0, height = 0, width = 0;

  bool operator==(const Box&) const = default;
};

/// What of an image is shown, and how large.
struct Framing {
  Box from{};                          ///< of the image; pixels outside of it have no influence
  std::int64_t height = 0, width = 0;  ///< what `from` is resized to
  Box part{};                          ///< of the resized image: what is wanted
  bool mirrored = false;               ///< left and right change places, in the end

  bool operator==(const Framing&) const = default;
};

/// `image` is uint8 [H, W, kPixelBytes], as decode_jpeg() gives it; the result is [part.height, part.width,
/// kPixelBytes], not yet mirrored. Computes what `part` needs and nothing else. Throws Error where a box is empty or
/// reaches outside.
core::Tensor resize(const core::Tensor& image, const Framing& framing);

}  // namespace tandem::data
