// A file to which a run adds lines while it goes on: each is there as soon as it is written.
#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "tandem/train/stop_signal.h"

namespace tandem::train {

class OutputLines {
 public:
  enum class Begin : std::uint8_t { empty, behind_what_is_there };

  /// Of a pipe waits for somebody who reads it. Throws Error if the file cannot be opened, or `stop` comes meanwhile.
  OutputLines(std::filesystem::path path, Begin begin, StopSignal& stop);

  /// If the file takes no more, that is lost output, because of which `stop` ends the run; later lines are dropped.
  void add(const std::string& line);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  std::filesystem::path path_;
  StopSignal* stop_;
  std::unique_ptr<std::FILE, Close> file_;  // null: takes no more
};

}  // namespace tandem::train
