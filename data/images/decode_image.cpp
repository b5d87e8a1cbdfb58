#include "tandem/data/images/decode_image.h"

#include <array>

#include "tandem/core/files/file.h"
#include "tandem/data/images/jpeg.h"
#include "tandem/data/images/png.h"

namespace tandem::data {
namespace {

using namespace std::string_view_literals;

struct Signature {
  std::size_t offset;
  std::string_view bytes, format;
};

constexpr std::array kSignatures{
    Signature{0, "\xff\xd8"sv, "JPEG"},    Signature{0, "\x89PNG\r\n\x1a\n"sv, "PNG"},
    Signature{0, "GIF8"sv, "GIF"},         Signature{0, "BM"sv, "BMP"},
    Signature{8, "WEBP"sv, "WebP"},        Signature{0, "II*\0"sv, "TIFF"},
    Signature{0, "MM\0*"sv, "TIFF"},       Signature{4, "ftypavi"sv, "AVIF"},  // avif, avis
    Signature{4, "ftyphe"sv, "HEIC"},                                          // heic, heix, heim, heis, hevc, hevx
    Signature{4, "ftypmif1"sv, "HEIF"},    Signature{0, "\0\0\0\x0cJXL "sv, "JPEG XL"},
    Signature{0, "\xff\x0a"sv, "JPEG XL"}, Signature{0, "\0\0\0\x0cjP  "sv, "JPEG 2000"},
};

}  // namespace

std::string_view image_format(std::string_view bytes) {
  for (const Signature& signature : kSignatures)
    if (bytes.size() >= signature.offset && bytes.substr(signature.offset).starts_with(signature.bytes))
      return signature.format;
  return "";
}

void check_image_format(std::string_view bytes, const std::filesystem::path& path) {
  if (bytes.empty()) core::fail("{}: is empty, needed a JPEG or PNG file", path.string());
  const std::string_view format = image_format(bytes);
  if (format == "JPEG" || format == "PNG") return;
  if (!format.empty())
    core::fail("{}: is a {} file; only JPEG and PNG files are read, convert it", path.string(), format);
  core::fail_at(path, 0,
                "is no image: it begins neither as JPEG files, with ff d8, nor as PNG files, with 89 50 4e 47");
}

core::Tensor decode_image(std::string_view bytes, const std::filesystem::path& path) {
  check_image_format(bytes, path);
  return image_format(bytes) == "PNG" ? decode_png(bytes, path) : decode_jpeg(bytes, path);
}

}  // namespace tandem::data
