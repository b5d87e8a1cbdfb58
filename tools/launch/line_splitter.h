// Cuts a stream of bytes into lines.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace tandem::launch {

/// A line ends with \n, \r or \r\n; a \r at the beginning of one (of a progress line that overwrites itself) is
/// nothing.
class LineSplitter {
 public:
  static constexpr std::size_t kMaxLine = 64 * 1024;  ///< what is longer comes in pieces
  using Emit = std::function<void(std::string_view line)>;

  /// Calls `emit` with each line that is complete, without its end.
  void feed(std::string_view bytes, const Emit& emit);
  /// The stream has ended: what is left is a line too.
  void finish(const Emit& emit);

 private:
  std::string partial_;
  bool is_after_return_ = false;  // a \n now belongs to the \r before
};

}  // namespace tandem::launch
