#include "tandem/data/images/png.h"

#include <png.h>

#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstring>

#include "tandem/core/files/file.h"

namespace tandem::data {
namespace {

// libpng reports an error by a call that must not return. Its own frames know no exceptions, so that call jumps out of
// them, back into run(), which throws. What run() is given must therefore own nothing.
class Decoder {
 public:
  Decoder(std::string_view bytes, const std::filesystem::path& path) : bytes_(bytes), path_(path) {}
  ~Decoder() { png_destroy_read_struct(&png_, &info_, nullptr); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  void read_header() {
    run([this] {
      png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, leave, ignore_warning);
      info_ = png_ == nullptr ? nullptr : png_create_info_struct(png_);
      if (info_ == nullptr) std::longjmp(escape_, 1);               // NOLINT(cert-err52-cpp): "out of memory"
      png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // what both make together is checked below
      png_set_read_fn(png_, this, read_bytes);
      png_read_info(png_, info_);
    });
    if (height() > kMaxPixels / width())
      core::fail("{}: claims {} x {} pixels, at most {} are decoded", path_.string(), width(), height(), kMaxPixels);
  }

  std::int64_t height() const { return png_get_image_height(png_, info_); }
  std::int64_t width() const { return png_get_image_width(png_, info_); }

  void read_pixels(std::uint8_t* out) {
    run([this, out] {
      png_set_expand(png_);    // palettes, fewer than 8 bits
      png_set_strip_16(png_);  // the upper 8 bits
      png_set_gray_to_rgb(png_);
      png_set_strip_alpha(png_);
      png_set_filler(png_, 0xff, PNG_FILLER_AFTER);
      const int passes = png_set_interlace_handling(png_);
      png_read_update_info(png_, info_);
      if (png_get_rowbytes(png_, info_) != static_cast<std::size_t>(width() * kPixelBytes))
        png_error(png_, "unexpected size of rows");
      for (int pass = 0; pass < passes; ++pass)
        for (std::int64_t y = 0; y < height(); ++y) png_read_row(png_, out + y * width() * kPixelBytes, nullptr);
      has_all_rows_ = true;
      png_read_end(png_, nullptr);  // the checksums
    });
  }

 private:
  template <class Step>
  void run(const Step& step) {
    if (setjmp(escape_) == 0) {  // NOLINT(cert-err52-cpp): the only way out of C
      step();
    } else if (!(has_all_rows_ && is_at_end_)) {
      core::fail_at(path_, offset_, "cannot be decoded: {}", message_.data());
    }
  }

  static Decoder& of(png_structp png) { return *static_cast<Decoder*>(png_get_error_ptr(png)); }

  [[noreturn]] static void leave(png_structp png, png_const_charp message) {
    Decoder& decoder = of(png);
    std::snprintf(decoder.message_.data(), decoder.message_.size(), "%s", message);
    std::longjmp(decoder.escape_, 1);  // NOLINT(cert-err52-cpp)
  }

  static void ignore_warning(png_structp, png_const_charp) {}

  static void read_bytes(png_structp png, png_bytep to, std::size_t count) {
    Decoder& decoder = of(png);
    if (count > decoder.bytes_.size() - decoder.offset_) {
      decoder.offset_ = decoder.bytes_.size();
      decoder.is_at_end_ = true;
      png_error(png, "Premature end of PNG file");
    }
    std::memcpy(to, decoder.bytes_.data() + decoder.offset_, count);
    decoder.offset_ += count;
  }

  std::string_view bytes_;
  const std::filesystem::path& path_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::jmp_buf escape_{};
  std::array<char, 200> message_{"out of memory"};
  std::uint64_t offset_ = 0;
  bool has_all_rows_ = false, is_at_end_ = false;
};

}  // namespace

core::Tensor decode_png(std::string_view bytes, const std::filesystem::path& path) {
  Decoder decoder(bytes, path);
  decoder.read_header();
  core::Tensor image = core::Tensor::empty({decoder.height(), decoder.width(), kPixelBytes},
                                           {.dtype = core::DType::uint8, .device = core::kCpu});
  decoder.read_pixels(image.mutable_data<std::uint8_t>());
  return image;
}

}  // namespace tandem::data
