// The one exception type of Tandem and the way to throw it.
//
// A message is one line and names the operator or file, the rule, and what was given, for example
//   matmul: inner dimensions differ: [8, 16] x [32, 4] (16 and 32)
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace tandem::core {

/// A mistake that the caller can understand and mend: a shape, a file, a setting.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Throws Error with a message in fmt's syntax: `fail("sum: no dimension {} in {}", dim, shape.str())`.
template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace tandem::core
