#include "tandem/data/images/png.h"

#include <zlib.h>

#include <array>
#include <random>

#include "tests/data/images.h"

namespace tandem::data {
namespace {

using namespace std::string_literals;

std::string decoding_error(const std::string& bytes) {
  return error_of([&] { decode_png(bytes, "x.png"); });
}

TEST(Png, PixelsArePillows) {
  GoldenImages golden;
  for (const char* kind : {"rgb",
                           "rgb_interlaced",
                           "rgb_16",
                           "rgb_one_transparent",
                           "rgb_gamma",
                           "rgba",
                           "rgba_16_interlaced",
                           "grey",
                           "grey_alpha",
                           "grey_1",
                           "grey_2",
                           "grey_4",
                           "grey_1_interlaced",
                           "grey_2_interlaced",
                           "grey_4_interlaced",
                           "palette_1",
                           "palette_2",
                           "palette_4",
                           "palette_transparent",
                           "one_pixel"})
    expect_same_pixels(decode_png(golden.png(kind), "x.png"), golden.pixels("png_"s + kind), kind);
}

std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift);
  return bytes;
}

std::string chunk(const std::string& kind, const std::string& data) {
  const std::string checked = kind + data;
  const auto sum = crc32(0, reinterpret_cast<const Bytef*>(checked.data()), static_cast<uInt>(checked.size()));
  return big_endian(static_cast<std::uint32_t>(data.size())) + checked + big_endian(static_cast<std::uint32_t>(sum));
}

/// `depth` and `color` as in the format: 0 grey, 2 RGB, 3 palette; `rows` begin with the number of their filter.
std::string png_file(std::uint32_t width, std::uint32_t height, int depth, int color, const std::string& rows,
                     const std::string& before_data = "") {
  uLongf size = compressBound(rows.size());
  std::string data(size, '\0');
  compress(reinterpret_cast<Bytef*>(data.data()), &size, reinterpret_cast<const Bytef*>(rows.data()), rows.size());
  data.resize(size);
  const std::string header =
      big_endian(width) + big_endian(height) + static_cast<char>(depth) + static_cast<char>(color) + "\0\0\0"s;
  return "\x89PNG\r\n\x1a\n" + chunk("IHDR", header) + before_data + chunk("IDAT", data) + chunk("IEND", "");
}

// Pillow would clip them at 255, which makes nearly all of them white.
TEST(Png, OfGreyWith16BitsTheUpper8AreKept) {
  const Tensor image = decode_png(png_file(3, 1, 16, 0, "\0\x12\x34\xff\x00\x00\xff"s), "x.png");
  EXPECT_EQ(image.slice(2, 0, 3).to_vector<int>(), (std::vector<int>{0x12, 0x12, 0x12, 0xff, 0xff, 0xff, 0, 0, 0}));
}

TEST(Png, TheLastChunkMayBeMissing) {
  GoldenImages golden;
  for (const char* kind : {"rgb", "rgb_interlaced", "palette_4"}) {
    const std::string bytes = golden.png(kind);
    for (std::size_t cut = 1; cut <= 12; ++cut)
      expect_same_pixels(decode_png(bytes.substr(0, bytes.size() - cut), "x.png"), golden.pixels("png_"s + kind), kind);
    for (std::size_t size = 0; size < bytes.size() - 12; ++size)
      ASSERT_EQ(decoding_error(bytes.substr(0, size)),
                fmt::format("x.png, byte {}: cannot be decoded: Premature end of PNG file", size));
    expect_same_pixels(decode_png(bytes + "more", "x.png"), golden.pixels("png_"s + kind), "bytes behind the end");
  }
}

TEST(Png, ClaimsAreNotBelieved) {
  const std::string row = "\0\0\0\0"s;
  EXPECT_EQ(decoding_error(png_file(65500, 65500, 8, 2, row)),
            "x.png: claims 65500 x 65500 pixels, at most 178956970 are decoded");
  EXPECT_EQ(decoding_error(png_file(0x7fffffff, 0x7fffffff, 8, 2, row)),
            "x.png: claims 2147483647 x 2147483647 pixels, at most 178956970 are decoded");
  expect_contains(decoding_error(png_file(0x80000000, 1, 8, 2, row)),
                  "cannot be decoded: PNG unsigned integer out of range");
  expect_contains(decoding_error(png_file(0, 1, 8, 2, row)), "cannot be decoded: Invalid IHDR data");
  expect_contains(decoding_error(png_file(1, 2, 8, 2, row)), "cannot be decoded: ");  // one row, two are claimed
  expect_contains(decoding_error(png_file(1, 1, 7, 2, row)), "cannot be decoded: Invalid IHDR data");
  expect_contains(decoding_error(png_file(1, 1, 8, 3, row)), "cannot be decoded: ");  // no palette
}

TEST(Png, AnIndexBehindThePalettesEnd) {
  const std::string bytes = png_file(2, 1, 8, 3, "\0\0\xc8"s, chunk("PLTE", "\1\2\3"));
  EXPECT_EQ(decode_png(bytes, "x.png").slice(2, 0, 3).to_vector<int>(), (std::vector<int>{1, 2, 3, 0, 0, 0}));
}

TEST(Png, DamageIsFoundByChecksums) {
  GoldenImages golden;
  const std::string bytes = golden.png("rgb");
  const std::size_t data = bytes.find("IDAT");
  std::string changed = bytes;
  changed[data + 100] = static_cast<char>(changed[data + 100] ^ 1);
  expect_contains(decoding_error(changed), "x.png, byte ");
  changed = bytes;
  changed[20] = static_cast<char>(changed[20] ^ 1);
  expect_contains(decoding_error(changed), "cannot be decoded: IHDR: CRC error");
}

// What unpacks to more than it takes: comments, profiles.
TEST(Png, ChunksBesideTheImageCostLittle) {
  std::string zeros(20 << 20, '\0');
  uLongf size = compressBound(zeros.size());
  std::string packed(size, '\0');
  compress(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(zeros.data()), zeros.size());
  packed.resize(size);
  const std::string comment = chunk("zTXt", "key\0\0"s + packed), profile = chunk("iCCP", "name\0\0"s + packed);
  const std::string row = "\0\1\2\3"s;
  EXPECT_EQ(decode_png(png_file(1, 1, 8, 2, row, profile + comment), "x.png").slice(2, 0, 3).to_vector<int>(),
            (std::vector<int>{1, 2, 3}));
}

// An image or an Error for whatever bytes: nothing else, and no access outside, which the sanitizers would tell.
TEST(Png, AnyBytes) {
  GoldenImages golden;
  std::mt19937 random(1);
  int images = 0, errors = 0;
  const auto decode = [&](const std::string& bytes) {
    try {
      EXPECT_GT(decode_png(bytes, "x.png").numel(), 0);
      ++images;
    } catch (const core::Error& error) {
      expect_contains(error.what(), "x.png");
      ++errors;
    }
  };
  // Checksums would find most changes, so files are made whole around what makes no sense.
  constexpr std::array<std::array<int, 3>, 15> kinds{{{0, 1, 1},
                                                      {0, 2, 1},
                                                      {0, 4, 1},
                                                      {0, 8, 1},
                                                      {0, 16, 1},
                                                      {2, 8, 3},
                                                      {2, 16, 3},
                                                      {3, 1, 1},
                                                      {3, 2, 1},
                                                      {3, 4, 1},
                                                      {3, 8, 1},
                                                      {4, 8, 2},
                                                      {4, 16, 2},
                                                      {6, 8, 4},
                                                      {6, 16, 4}}};
  for (int i = 0; i < 2000; ++i) {
    const auto [color, depth, channels] = kinds[random() % kinds.size()];
    const unsigned width = 1 + random() % 9, height = 1 + random() % 9;
    std::string rows, palette;
    for (unsigned y = random() % 8 == 0; y < height; ++y) {
      rows += static_cast<char>(random() % (i % 4 ? 5 : 6));
      for (unsigned left = (width * static_cast<unsigned>(channels * depth) + 7) / 8; left > 0; --left)
        rows += static_cast<char>(random());
    }
    for (unsigned left = random() % 20 * (i % 4 ? 3 : 1); left > 0; --left) palette += static_cast<char>(random());
    decode(png_file(width, height, depth, color, rows,
                    chunk("PLTE", palette) + (i % 2 ? chunk("tRNS", palette.substr(0, palette.size() / 3)) : "")));
  }
  EXPECT_GT(images, 100);
  EXPECT_GT(errors, 100);
  for (const char* kind : {"rgb_interlaced", "palette_transparent", "rgba_16_interlaced", "grey_1"}) {
    const std::string bytes = golden.png(kind);
    for (int i = 0; i < 300; ++i) {
      std::string changed = bytes;
      char& byte = changed[8 + random() % (bytes.size() - 8)];
      byte = static_cast<char>(byte ^ (1 << random() % 8));
      decode(changed);
    }
  }
}

}  // namespace
}  // namespace tandem::data
