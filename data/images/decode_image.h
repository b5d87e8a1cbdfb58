// Files of images to pixels, whatever their names say.
#pragma once

#include <filesystem>
#include <string_view>

#include "tandem/core/tensor.h"

namespace tandem::data {

/// "JPEG", "PNG", "WebP", ... by the first bytes of a file (of which it needs 16); "" if they are none that we know.
std::string_view image_format(std::string_view bytes);

/// Whether decode_image() may succeed. Throws Error naming `path` and the format, or what is wrong, if not.
void check_image_format(std::string_view bytes, const std::filesystem::path& path);

/// A uint8 tensor [H, W, kPixelBytes] from the bytes of a JPEG or PNG file (jpeg.h, png.h). Throws Error naming `path`,
/// for other formats, too.
core::Tensor decode_image(std::string_view bytes, const std::filesystem::path& path);

}  // namespace tandem::data
