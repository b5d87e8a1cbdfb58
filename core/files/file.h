// Files read in pieces, written whole or not at all.
//
// What goes wrong is an Error of one line that begins with the path and, where there is one, the byte offset.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "tandem/core/error.h"

namespace tandem::core {

/// Throws Error: "PATH, byte OFFSET: what is wrong".
template <class... Args>
[[noreturn]] void fail_at(const std::filesystem::path& path, std::uint64_t offset, fmt::format_string<Args...> format,
                          Args&&... args) {
  fail("{}, byte {}: {}", path.string(), offset, fmt::format(format, std::forward<Args>(args)...));
}

/// A regular file, open for reading anywhere in it.
class InputFile {
 public:
  /// Throws Error where there is no such regular file or it may not be read.
  explicit InputFile(std::filesystem::path path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Bytes, when it was opened.
  std::uint64_t size() const { return size_; }
  /// `bytes` bytes from `offset` on; throws where the file ends before.
  void read(std::uint64_t offset, void* to, std::size_t bytes) const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

/// A file that appears under its name only when it is complete: written beside it, synced, renamed by commit().
/// Destroyed before that, it leaves no trace, and what had the name before stays. A link is followed: the file it names
/// is replaced.
class AtomicFile {
 public:
  /// Throws Error where the folder is missing or not writable, or `path` names something other than a file.
  explicit AtomicFile(const std::filesystem::path& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* from, std::size_t bytes);
  void commit();

 private:
  [[noreturn]] void throw_error(const char* action) const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
};

/// All bytes of a file.
std::string read_file(const std::filesystem::path& path);
/// `text` without the byte order mark that some editors and shells put before its first line.
std::string without_byte_order_mark(std::string text);
/// A text file without_byte_order_mark(). Throws Error if it has more than `most` bytes, which `what` ("a vocabulary")
/// never has.
std::string read_text_file(const std::filesystem::path& path, const char* what = "text",
                           std::uint64_t most = std::uint64_t{1} << 40);
/// Replaces or makes the file, by an AtomicFile.
void write_file_atomically(const std::filesystem::path& path, std::string_view contents);

}  // namespace tandem::core
