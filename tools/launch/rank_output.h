// What one rank writes: line by line to the launcher's own output, with the rank's number in front, and to a log.
#pragma once

#include <fstream>
#include <optional>
#include <string>

#include "tools/launch/line_splitter.h"
#include "tools/launch/output.h"

namespace tandem::launch {

class RankOutput {
 public:
  RankOutput(std::string prefix, Output& output) : prefix_(std::move(prefix)), output_(output) {}

  /// Throws Error where the file cannot be made.
  void open_log(const std::string& path, bool append);
  enum class Read : std::uint8_t { some, nothing, ended };
  /// Reads once what is there from a pipe that does not wait.
  Read read_from(int fd, Stream stream);
  /// Both pipes have ended, or nobody will read on.
  void finish();
  /// The last line on stderr, where it begins with "NAME: error: "; else empty.
  const std::string& last_error() const { return last_error_; }

 private:
  void write_line(Stream stream, std::string_view line);

  std::string prefix_;
  Output& output_;
  LineSplitter out_, err_;
  std::string last_error_;
  std::string log_path_;
  std::ofstream log_;
};

/// "[1] ", as wide for all ranks of a world.
std::string rank_prefix(int rank, int world_size);

/// Whether `line` begins with "NAME: error: ".
bool is_error_line(std::string_view line);

}  // namespace tandem::launch
