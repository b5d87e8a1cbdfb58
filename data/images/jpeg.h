// JPEG files to pixels, by libjpeg-turbo with its defaults: the accurate inverse DCT and smooth upsampling of colours,
// as Pillow decodes.
#pragma once

#include <filesystem>
#include <string_view>

#include "tandem/core/tensor.h"
#include "tandem/data/images/pixels.h"

namespace tandem::data {

/// A uint8 tensor [H, W, kPixelBytes] from a file's bytes. Grey becomes red = green = blue; CMYK and YCCK become what
/// Pillow's convert("RGB") makes of them. An orientation in the file's EXIF data is ignored, as by torchvision's
/// ImageFolder. Damaged parts within the data become what libjpeg-turbo makes of them, as in Pillow; the last marker
/// may be missing. `path` is for messages: throws Error with path, byte offset (near the place) and reason if the bytes
/// are no JPEG file, cut off, damaged so that no image comes out, of a kind that libjpeg-turbo does not know, or of
/// more than kMaxPixels pixels; nothing of the size that a file claims is allocated before that is checked.
core::Tensor decode_jpeg(std::string_view bytes, const std::filesystem::path& path);

}  // namespace tandem::data
