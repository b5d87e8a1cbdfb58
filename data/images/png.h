// PNG files to pixels, by libpng.
#pragma once

#include <filesystem>
#include <string_view>

#include "tandem/core/tensor.h"
#include "tandem/data/images/pixels.h"

namespace tandem::data {

/// A uint8 tensor [H, W, kPixelBytes] from a file's bytes, as Pillow's convert("RGB") makes it of every kind of PNG:
/// grey becomes red = green = blue, palettes are looked up, transparency is dropped, of 16 bits the upper 8 are kept
/// (of grey images, too, which Pillow would clip at 255). The last chunk may be missing. `path` is for
/// messages: throws Error with path, byte offset (near the place) and reason if the bytes are no PNG file, damaged, cut
/// off, or of more than kMaxPixels pixels; nothing of the size that a file claims is allocated before that is checked.
core::Tensor decode_png(std::string_view bytes, const std::filesystem::path& path);

}  // namespace tandem::data
