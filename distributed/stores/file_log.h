// The log of changes behind FileStore: a file that processes append to under a lock, and replay.
//
//   file     magic (16 bytes), then records
//   record   length of the payload (u32), check of the length (u32), check of the payload (u64), payload
//   payload  kind (u8: 1 set, 2 remove), length of the key (u32), key, value
//
// Numbers are little-endian, checks FNV-1a. A record that the file's end cuts off was left by a writer that was killed:
// it never happened, and the next writer writes over it. Whatever else does not fit is an error.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "tandem/distributed/stores/dictionary.h"

namespace tandem::distributed {

class FileLog {
 public:
  /// Throws Error where the file cannot be opened, made or locked, or holds something else.
  explicit FileLog(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  /// All that was replayed.
  const Dictionary& contents() const { return contents_; }
  /// Whether there may be more to replay. Cheap, without the lock. Throws PeerError where the file was removed,
  /// replaced or cut.
  bool has_grown() const;

  /// Holds the lock and has replayed all there is; destroy it to let go. Throws TimeoutError where another process does
  /// not let go, Error with path and byte offset where the file is damaged.
  class Turn {
   public:
    explicit Turn(FileLog& log);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

    void set(const std::string& key, const std::string& value);
    void remove(const std::string& key);

   private:
    FileLog& log_;
  };

 private:
  struct Descriptor {
    explicit Descriptor(int opened) : number(opened) {}
    ~Descriptor();
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    int number;
  };

  std::uint64_t size_of_same_file() const;
  void lock();
  void unlock();
  void replay();
  void begin_file();
  void apply(const std::string& payload);
  void append(const std::string& payload);
  std::string read_at(std::uint64_t offset, std::size_t length) const;
  void write_at(std::uint64_t offset, const std::string& bytes);
  [[noreturn]] void damaged(const std::string& what) const;

  std::filesystem::path path_;
  Descriptor file_;
  std::uint64_t replayed_ = 0;  ///< bytes
  Dictionary contents_;
};

}  // namespace tandem::distributed
