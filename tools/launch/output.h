// The launcher's own stdout and stderr: whole lines, in order, never waiting for who reads them.
//
// Where both are the same terminal or pipe, a line of one does not cut a line of the other. Who writes more than is
// read finds is_full() and should stop for a while.
#pragma once

#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "tools/launch/signals.h"

namespace tandem::launch {

enum class Stream : std::uint8_t { out, err };

class Output {
 public:
  Output(int out_fd, int err_fd);

  /// Queues `line` and a line end.
  void write_line(Stream stream, std::string_view line);
  bool is_full(Stream stream) const;
  /// Writes what can be written at once.
  void write_some();
  /// To poll for POLLOUT; -1 where there is nothing to write.
  int fd_to_poll(Stream stream) const;
  /// Waits until all is written or gone, until another wish to end comes, or for `patience` (none: for ever).
  void flush(Signals& signals, std::optional<std::chrono::milliseconds> patience);
  /// The error number because of which a stream takes nothing more; 0: none. What is written to it is dropped.
  int error(Stream stream) const;

 private:
  struct Sink {
    int fd;
    std::size_t chunk;  // bytes that a write takes without waiting, once poll said so
    std::string queue;  // from `written` on
    std::size_t written = 0;
    bool is_in_line = false;  // the last byte written was no line end
    int error = 0;
  };

  const Sink& sink(Stream stream) const { return sinks_[static_cast<std::size_t>(stream)]; }
  bool may_write(std::size_t index) const;
  static bool write_chunk(Sink& sink);

  std::array<Sink, 2> sinks_;
};

}  // namespace tandem::launch
