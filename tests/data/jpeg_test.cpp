#include "tandem/data/images/jpeg.h"

#include <random>

#include "tests/data/images.h"

namespace tandem::data {
namespace {

std::string decoding_error(const std::string& bytes) {
  return error_of([&] { decode_jpeg(bytes, "x.jpg"); });
}

TEST(Jpeg, PixelsArePillows) {
  GoldenImages golden;
  for (const char* kind : {"444", "422", "420", "440", "411", "progressive", "restarts", "poor", "kept_rgb", "turned",
                           "grey", "cmyk", "ycck", "one_pixel", "column", "row"})
    expect_same_pixels(decode_jpeg(golden.file(kind), "x.jpg"), golden.pixels(kind), kind);
}

// Bytes that make no sense, and markers where none should be: what cannot be decoded is grey, as in Pillow.
TEST(Jpeg, DamagedFilesThatPillowOpens) {
  GoldenImages golden;
  for (const std::string kind : {"zeros", "stray_table", "stray_restart", "extraneous"})
    for (const std::string& name : {kind, kind + "_progressive"})
      expect_same_pixels(decode_jpeg(golden.file(name), "x.jpg"), golden.pixels(name), name);
  expect_same_pixels(decode_jpeg(golden.file("early_end"), "x.jpg"), golden.pixels("early_end"), "early_end");
}

TEST(Jpeg, WhatIsNoJpeg) {
  expect_contains(decoding_error("hello"), "x.jpg, byte 0: cannot be decoded: Not a JPEG file");
  expect_contains(decoding_error(""), "x.jpg, byte 0: cannot be decoded: ");
  expect_contains(decoding_error("\xff\xd8"), "x.jpg, byte 2: cannot be decoded: Premature end of JPEG file");
}

// The last marker alone may be missing, from files whose data are read once.
TEST(Jpeg, CutOffAnywhere) {
  GoldenImages golden;
  for (const char* kind : {"420", "progressive", "cmyk", "grey", "restarts"}) {
    const std::string bytes = golden.file(kind);
    const std::size_t needed = bytes.size() - (kind == std::string("progressive") ? 0 : 2);
    for (std::size_t size = 2; size < needed; ++size)
      ASSERT_EQ(decoding_error(bytes.substr(0, size)),
                fmt::format("x.jpg, byte {}: cannot be decoded: Premature end of JPEG file", size))
          << kind;
    for (std::size_t size = needed; size < bytes.size(); ++size)
      expect_same_pixels(decode_jpeg(bytes.substr(0, size), "x.jpg"), golden.pixels(kind), kind);
  }
}

// Bytes of the frame's header changed, from the one at `at` on: precision, height, width, number of components.
std::string with_frame(std::string bytes, std::size_t at, const std::vector<int>& values) {
  at += bytes.find("\xff\xc0") + 4;
  for (const int value : values) bytes.at(at++) = static_cast<char>(value);
  return bytes;
}

TEST(Jpeg, ClaimsAreNotBelieved) {
  GoldenImages golden;
  const std::string bytes = golden.file("420");
  EXPECT_EQ(decoding_error(with_frame(bytes, 1, {0xff, 0xdc, 0xff, 0xdc})),
            "x.jpg: claims 65500 x 65500 pixels, at most 178956970 are decoded");
  expect_contains(decoding_error(with_frame(bytes, 1, {0xff, 0xff, 0xff, 0xff})), "65500 pixels");
  expect_contains(decoding_error(with_frame(bytes, 1, {0, 0})), "cannot be decoded: Empty JPEG image");
  // 4096 rows, 29 there: the rest is grey, as in Pillow.
  EXPECT_EQ(decode_jpeg(with_frame(bytes, 1, {0x10, 0}), "x.jpg").shape(), (core::Shape{4096, 43, kPixelBytes}));
  expect_contains(decoding_error(with_frame(bytes, 0, {12})), "cannot be decoded: Unsupported JPEG data precision 12");
  expect_contains(decoding_error(with_frame(bytes, 5, {2})), "cannot be decoded: ");
}

TEST(Jpeg, TwoComponents) {
  // A frame of two components is legal, and nobody knows what colours they are.
  using namespace std::string_literals;
  const std::string frame = "\xff\xc0\x00\x0e\x08\x00\x01\x00\x01\x02\x01\x11\x00\x02\x11\x00"s;
  const std::string scan = "\xff\xda\x00\x0a\x02\x01\x00\x02\x00\x00\x3f\x00"s;
  EXPECT_EQ(decoding_error("\xff\xd8" + frame + scan), "x.jpg: a JPEG of 2 colour components, needed 1, 3 or 4");
}

// A colour image whose components come one after another, again and again: each of them the grey image's data.
std::string with_scans(const std::string& grey, int count) {
  using namespace std::string_literals;
  constexpr std::size_t kFrame = 13, kScan = 10;  // bytes of the headers for one component
  const std::size_t frame = grey.find("\xff\xc0"), tables = frame + kFrame, scan = grey.find("\xff\xda");
  const std::string size = grey.substr(frame + 4, 5), data = grey.substr(scan + kScan, grey.size() - 2 - scan - kScan);
  std::string bytes = grey.substr(0, frame) + "\xff\xc0\x00\x11"s + size + "\x03\x01\x11\x00\x02\x11\x00\x03\x11\x00"s +
                      grey.substr(tables, scan - tables);
  for (int i = 0; i < count; ++i)
    bytes += "\xff\xda\x00\x08\x01"s + static_cast<char>(1 + i % 3) + "\x00\x00\x3f\x00"s + data;
  return bytes + "\xff\xd9";
}

TEST(Jpeg, ManyScans) {
  GoldenImages golden;
  const std::string grey = golden.file("grey");
  const core::Shape shape{29, 43, kPixelBytes};
  EXPECT_EQ(decode_jpeg(with_scans(grey, 3), "x.jpg").shape(), shape);
  EXPECT_EQ(decode_jpeg(with_scans(grey, 500), "x.jpg").shape(), shape);
  expect_contains(decoding_error(with_scans(grey, 502)), "cannot be decoded: more than 500 scans");
}

// Writers' oddities that Pillow, too, passes over: bytes before a marker, behind the end, and an unknown JFIF version.
TEST(Jpeg, HarmlessOddities) {
  GoldenImages golden;
  const std::string bytes = golden.file("420");
  const Tensor expected = golden.pixels("420");
  const std::string body = bytes.substr(0, bytes.size() - 2);
  expect_same_pixels(decode_jpeg(body + std::string(5, '\0') + "\xff\xd9", "x.jpg"), expected, "bytes before the end");
  expect_same_pixels(decode_jpeg(bytes + "anything", "x.jpg"), expected, "bytes behind the end");
  std::string version = bytes;
  version[version.find("JFIF") + 5] = 0;
  expect_same_pixels(decode_jpeg(version, "x.jpg"), expected, "JFIF 0.1");
}

// An image or an Error for whatever bytes: nothing else, and no access outside, which the sanitizers would tell.
TEST(Jpeg, AnyBytes) {
  GoldenImages golden;
  std::mt19937 random(1);
  int images = 0, errors = 0;
  const auto decode = [&](const std::string& bytes) {
    try {
      EXPECT_GT(decode_jpeg(bytes, "x.jpg").numel(), 0);
      ++images;
    } catch (const core::Error& error) {
      expect_contains(error.what(), "x.jpg");
      ++errors;
    }
  };
  for (const char* kind : {"420", "progressive", "restarts", "ycck", "grey", "440"}) {
    const std::string bytes = golden.file(kind);
    for (int i = 0; i < 400; ++i) {
      std::string changed = bytes;
      for (unsigned flips = 1 + random() % 4; flips > 0; --flips) {
        char& byte = changed[2 + random() % (bytes.size() - 2)];
        byte = static_cast<char>(byte ^ (1 << random() % 8));
      }
      decode(changed);
    }
  }
  EXPECT_GT(images, 100);
  EXPECT_GT(errors, 100);
  for (int i = 0; i < 500; ++i) {
    std::string bytes = "\xff\xd8\xff";
    for (unsigned left = random() % 200; left > 0; --left) bytes += static_cast<char>(random());
    decode(bytes);
  }
}

}  // namespace
}  // namespace tandem::data
