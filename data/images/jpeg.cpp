#include "tandem/data/images/jpeg.h"

#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstdio>

#include <jpeglib.h>  // needs size_t and FILE declared before

#include <jerror.h>

#include <algorithm>
#include <array>

#include "tandem/core/files/file.h"

namespace tandem::data {
namespace {

// Real files have a dozen; each of thousands costs a pass over the whole image.
constexpr int kMaxScans = 500;

// libjpeg reports an error by a call that must not return. Its own frames know no exceptions, so that call jumps out of
// them, back into run(), which throws. What run() is given must therefore own nothing.
class Decoder {
 public:
  Decoder(std::string_view bytes, const std::filesystem::path& path) : bytes_(bytes), path_(path) {
    state_.err = jpeg_std_error(&errors_);
    state_.client_data = this;
    errors_.error_exit = leave;
    errors_.emit_message = judge_warning;
    progress_.progress_monitor = check_scans;
  }
  ~Decoder() { jpeg_destroy_decompress(&state_); }  // does nothing where it was never created
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  void read_header() {
    run([this] {
      jpeg_create_decompress(&state_);
      state_.progress = &progress_;
      jpeg_mem_src(&state_, reinterpret_cast<const unsigned char*>(bytes_.data()), bytes_.size());
      jpeg_read_header(&state_, TRUE);
    });
    if (components() != 1 && components() != 3 && components() != 4)
      core::fail("{}: a JPEG of {} colour components, needed 1, 3 or 4", path_.string(), components());
    if (height() * width() > kMaxPixels)
      core::fail("{}: claims {} x {} pixels, at most {} are decoded", path_.string(), width(), height(), kMaxPixels);
  }

  std::int64_t height() const { return state_.image_height; }
  std::int64_t width() const { return state_.image_width; }
  int components() const { return state_.num_components; }

  void read_pixels(std::uint8_t* out) {
    is_in_data_ = true;
    state_.out_color_space = components() == 4 ? JCS_CMYK : JCS_EXT_RGBX;
    run([this, out] {
      jpeg_start_decompress(&state_);
      std::array<JSAMPROW, 8> rows;
      while (state_.output_scanline < state_.output_height) {
        const auto count = std::min<std::size_t>(rows.size(), state_.output_height - state_.output_scanline);
        for (std::size_t i = 0; i < count; ++i)
          rows[i] = out + (state_.output_scanline + static_cast<std::int64_t>(i)) * width() * kPixelBytes;
        jpeg_read_scanlines(&state_, rows.data(), static_cast<JDIMENSION>(count));
      }
      jpeg_finish_decompress(&state_);
    });
  }

 private:
  template <class Step>
  void run(const Step& step) {
    if (setjmp(escape_) != 0)  // NOLINT(cert-err52-cpp): the only way out of C
      core::fail_at(path_, offset_, "cannot be decoded: {}", message_.data());
    step();
  }

  [[noreturn]] void escape() {
    offset_ = bytes_.size() - (is_at_end_ || state_.src == nullptr ? 0 : state_.src->bytes_in_buffer);
    std::longjmp(escape_, 1);  // NOLINT(cert-err52-cpp)
  }

  static Decoder& of(j_common_ptr state) { return *static_cast<Decoder*>(state->client_data); }

  static void leave(j_common_ptr state) {
    Decoder& decoder = of(state);
    state->err->format_message(state, decoder.message_.data());
    decoder.escape();
  }

  // Warnings are about damage that libjpeg-turbo has found a way around, or writers' oddities: Pillow, too, passes over
  // them. But where the bytes end before the image does, rows would be made up. libjpeg-turbo asks for bytes ahead of
  // need, so the end alone is no fault in data that are read once: what misses them there warns once more.
  static void judge_warning(j_common_ptr state, int level) {
    if (level >= 0) return;
    Decoder& decoder = of(state);
    if (state->err->msg_code == JWRN_JPEG_EOF) {
      decoder.is_at_end_ = true;
      state->err->format_message(state, decoder.message_.data());
      if (decoder.is_in_data_ && !jpeg_has_multiple_scans(&decoder.state_)) return;
    }
    if (decoder.is_at_end_) decoder.escape();
  }

  static void check_scans(j_common_ptr state) {
    Decoder& decoder = of(state);
    if (decoder.state_.input_scan_number <= kMaxScans) return;
    std::snprintf(decoder.message_.data(), decoder.message_.size(), "more than %d scans", kMaxScans);
    decoder.escape();
  }

  std::string_view bytes_;
  const std::filesystem::path& path_;
  jpeg_decompress_struct state_{};
  jpeg_error_mgr errors_{};
  jpeg_progress_mgr progress_{};
  std::jmp_buf escape_{};
  std::array<char, JMSG_LENGTH_MAX> message_{};
  std::uint64_t offset_ = 0;
  bool is_in_data_ = false;  // behind the header
  bool is_at_end_ = false;   // bytes were asked for that are not there
};

// Adobe's JPEG files, and so everybody's, hold 255 - ink. What is left of a colour is its part of what black leaves.
// Rounded as Pillow does.
void cmyk_to_rgb(std::uint8_t* pixels, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint8_t* pixel = pixels + i * kPixelBytes;
    const int light = pixel[3];
    for (int c = 0; c < 3; ++c) {
      const int product = (255 - pixel[c]) * light + 128;
      pixel[c] = static_cast<std::uint8_t>(light - ((product + (product >> 8)) >> 8));
    }
  }
}

}  // namespace

core::Tensor decode_jpeg(std::string_view bytes, const std::filesystem::path& path) {
  Decoder decoder(bytes, path);
  decoder.read_header();
  core::Tensor image = core::Tensor::empty({decoder.height(), decoder.width(), kPixelBytes},
                                           {.dtype = core::DType::uint8, .device = core::kCpu});
  auto* pixels = image.mutable_data<std::uint8_t>();
  decoder.read_pixels(pixels);
  if (decoder.components() == 4) cmyk_to_rgb(pixels, decoder.height() * decoder.width());
  return image;
}

}  // namespace tandem::data
