#include "tandem/data/idx.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "tandem/core/files/file.h"

namespace tandem::data {
namespace {

using core::Shape;
using core::Tensor;

// Deflate cannot do better than this, so a compressed file's size bounds what it can hold.
constexpr std::uint64_t kMostPerByte = 1032;

// The contents of a file from front to back, decompressed where they are compressed.
class ContentReader {
 public:
  explicit ContentReader(const std::filesystem::path& path)
      : path_(path), file_(core::read_file(path)), compressed_(file_.starts_with("\x1f\x8b")) {
    if (!compressed_) return;
    stream_.next_in = reinterpret_cast<Bytef*>(file_.data());
    // 16: a gzip frame, whose checksum is verified.
    if (inflateInit2(&stream_, MAX_WBITS + 16) != Z_OK) core::fail("{}: zlib cannot be started", path_.string());
  }
  ~ContentReader() {
    if (compressed_) inflateEnd(&stream_);
  }
  ContentReader(const ContentReader&) = delete;
  ContentReader& operator=(const ContentReader&) = delete;

  std::uint64_t offset() const { return offset_; }
  // No more bytes than this can come.
  std::uint64_t most_bytes() const { return compressed_ ? file_.size() * kMostPerByte : file_.size(); }

  // Returns how many of `bytes` there were: fewer only at the end.
  std::size_t read(void* to, std::size_t bytes) {
    const std::size_t got = compressed_ ? inflate_into(static_cast<Bytef*>(to), bytes) : copy_into(to, bytes);
    offset_ += got;
    return got;
  }

 private:
  std::size_t copy_into(void* to, std::size_t bytes) {
    const std::size_t got = std::min<std::size_t>(bytes, file_.size() - offset_);
    if (got > 0) std::memcpy(to, file_.data() + offset_, got);
    return got;
  }

  std::size_t inflate_into(Bytef* to, std::size_t bytes) {
    constexpr std::size_t kPiece = std::size_t{1} << 30;  // zlib counts in 32 bits
    std::size_t got = 0;
    while (got < bytes && !ended_) {
      stream_.avail_in = static_cast<uInt>(std::min(file_.size() - consumed(), kPiece));
      stream_.next_out = to + got;
      stream_.avail_out = static_cast<uInt>(std::min(bytes - got, kPiece));
      const int status = inflate(&stream_, Z_NO_FLUSH);
      got = static_cast<std::size_t>(stream_.next_out - to);
      if (status == Z_STREAM_END) {
        end_member(offset_ + got);
      } else if (status == Z_BUF_ERROR) {
        core::fail_at(path_, offset_ + got, "the gzip data ends early, after {} compressed bytes", file_.size());
      } else if (status != Z_OK) {
        core::fail_at(path_, offset_ + got, "the gzip data is damaged at compressed byte {}: {}", consumed(),
                      stream_.msg ? stream_.msg : "unknown error");
      }
    }
    return got;
  }

  // A gzip file may be several ones behind each other.
  void end_member(std::uint64_t offset) {
    const std::string_view rest = std::string_view(file_).substr(consumed());
    if (rest.starts_with("\x1f\x8b")) {
      inflateReset(&stream_);
    } else if (!rest.empty()) {
      core::fail_at(path_, offset, "{} bytes behind the end of the gzip data, at compressed byte {}", rest.size(),
                    consumed());
    } else {
      ended_ = true;
    }
  }

  std::size_t consumed() const {
    return static_cast<std::size_t>(reinterpret_cast<const char*>(stream_.next_in) - file_.data());
  }

  const std::filesystem::path& path_;
  std::string file_;
  bool compressed_;
  bool ended_ = false;
  z_stream stream_{};
  std::uint64_t offset_ = 0;  // of the contents
};

std::uint32_t read_big_endian(const std::filesystem::path& path, ContentReader& reader) {
  std::array<std::uint8_t, 4> bytes;
  if (reader.read(bytes.data(), bytes.size()) != bytes.size())
    core::fail_at(path, reader.offset(), "the file ends within its header");
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 | std::uint32_t{bytes[2]} << 8 | bytes[3];
}

Shape read_shape(const std::filesystem::path& path, ContentReader& reader, int rank) {
  const std::uint32_t magic = read_big_endian(path, reader);
  if (magic >> 16 != 0) core::fail_at(path, 0, "0x{:08x} is not the beginning of an IDX file (two zero bytes)", magic);
  if ((magic >> 8 & 0xff) != 0x08)
    core::fail_at(path, 2, "element type 0x{:02x}, needed 0x08 (uint8)", magic >> 8 & 0xff);
  if ((magic & 0xff) != static_cast<std::uint32_t>(rank))
    core::fail_at(path, 3, "{} dimensions, needed {}", magic & 0xff, rank);
  Shape shape;
  std::int64_t count = 1;  // as if a size of 0 were 1: strides are products too
  for (int i = 0; i < rank; ++i) {
    shape.push_back(read_big_endian(path, reader));
    if (__builtin_mul_overflow(count, std::max<std::int64_t>(shape.back(), 1), &count))
      core::fail_at(path, 4, "the number of elements overflows in {}", shape.str());
  }
  const std::uint64_t most = reader.most_bytes() - reader.offset();
  if (const std::int64_t elements = core::numel(shape); static_cast<std::uint64_t>(elements) > most)
    core::fail_at(path, reader.most_bytes(), "the file ends early: {} needs {} bytes, at most {} follow the header",
                  shape.str(), elements, most);
  return shape;
}

}  // namespace

Tensor load_idx(const std::filesystem::path& path, int rank) {
  ContentReader reader(path);
  const Shape shape = read_shape(path, reader, rank);
  Tensor tensor = Tensor::empty(shape, {.dtype = core::DType::uint8, .device = core::kCpu});
  const std::size_t got = reader.read(tensor.mutable_data<std::uint8_t>(), tensor.bytes());
  if (got != tensor.bytes())
    core::fail_at(path, reader.offset(), "the file ends early: {} needs {} bytes, {} follow the header", shape.str(),
                  tensor.bytes(), got);
  // Asking for one more also makes zlib verify the checksum.
  char more = 0;
  const std::uint64_t end = reader.offset();
  if (reader.read(&more, 1) != 0)
    core::fail_at(path, end, "the file goes on behind the last element of {}", shape.str());
  return tensor;
}

}  // namespace tandem::data
