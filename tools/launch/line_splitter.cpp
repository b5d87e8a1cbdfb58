#include "tools/launch/line_splitter.h"

#include <algorithm>

namespace tandem::launch {

void LineSplitter::feed(std::string_view bytes, const Emit& emit) {
  while (!bytes.empty()) {
    const std::size_t room = kMaxLine - partial_.size();
    const std::size_t end = std::min(bytes.find_first_of("\r\n"), bytes.size());
    const std::size_t taken = std::min(end, room);
    if (taken > 0) is_after_return_ = false;
    partial_.append(bytes.substr(0, taken));
    bytes.remove_prefix(taken);
    if (taken < end) {  // the line is too long
      emit(partial_);
      partial_.clear();
      continue;
    }
    if (bytes.empty()) break;
    const bool is_return = bytes.front() == '\r';
    bytes.remove_prefix(1);
    if (!partial_.empty() || !(is_return || is_after_return_)) emit(partial_);
    is_after_return_ = is_return && !partial_.empty();
    partial_.clear();
  }
}

void LineSplitter::finish(const Emit& emit) {
  if (!partial_.empty()) emit(partial_);
  partial_.clear();
  is_after_return_ = false;
}

}  // namespace tandem::launch
