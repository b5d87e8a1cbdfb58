#include "tandem/data/images/decode_image.h"

#include "tests/data/images.h"

namespace tandem::data {
namespace {

using namespace std::string_literals;

std::string decoding_error(const std::string& bytes) {
  return error_of([&] { decode_image(bytes, "x.jpg"); });
}

TEST(DecodeImage, BytesDecideAndNotNames) {
  GoldenImages golden;
  expect_same_pixels(decode_image(golden.png("rgb"), "x.JPEG"), golden.pixels("png_rgb"), "PNG");
  expect_same_pixels(decode_image(golden.file("420"), "x.png"), golden.pixels("420"), "JPEG");
}

TEST(DecodeImage, OtherFormatsAreNamed) {
  const std::string ftyp = "\0\0\0\x1c"s + "ftyp";
  for (const auto& [bytes, format] : {std::pair{"GIF89a"s, "GIF"},
                                      {"BM6\0\0\0"s, "BMP"},
                                      {"RIFF....WEBPVP8 "s, "WebP"},
                                      {"II*\0\x08"s, "TIFF"},
                                      {"MM\0*\0"s, "TIFF"},
                                      {ftyp + "avif", "AVIF"},
                                      {ftyp + "heic", "HEIC"},
                                      {ftyp + "mif1", "HEIF"},
                                      {"\0\0\0\x0cJXL "s, "JPEG XL"},
                                      {"\0\0\0\x0cjP  "s, "JPEG 2000"}}) {
    EXPECT_EQ(image_format(bytes), format);
    EXPECT_EQ(decoding_error(bytes), "x.jpg: is a "s + format + " file; only JPEG and PNG files are read, convert it");
  }
}

TEST(DecodeImage, WhatIsNoImage) {
  EXPECT_EQ(decoding_error(""), "x.jpg: is empty, needed a JPEG or PNG file");
  for (const std::string bytes : {"<html>", "\xff", "RIFF", "\x89PNG", "RIFF....WAVEfmt "})
    EXPECT_EQ(
        decoding_error(bytes),
        "x.jpg, byte 0: is no image: it begins neither as JPEG files, with ff d8, nor as PNG files, with 89 50 4e "
        "47");
}

}  // namespace
}  // namespace tandem::data
