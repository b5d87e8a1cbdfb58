// The lines of a text.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace tandem::core {

/// Calls f for each line, a std::string_view into `text`, without its newline. The last one needs none: "a", like
/// "a\n", is one line; "" is none.
template <class F>
void for_each_line(std::string_view text, F&& f) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    f(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace tandem::core
