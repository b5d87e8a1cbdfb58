// How the programs end: their exit codes, wrong usage, and the last line that they print.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "tandem/core/error.h"

namespace tandem {

/// `kSignal + N`: ended by signal N, as shells say it.
constexpr int kFailed = 1, kWrongUsage = 2, kPeerFailed = 3, kSignal = 128;

/// The command line is wrong: exit code kWrongUsage.
class UsageError : public core::Error {
 public:
  using Error::Error;
};

/// Throws a UsageError with a message in fmt's syntax.
template <class... Args>
[[noreturn]] void fail_usage(fmt::format_string<Args...> format, Args&&... args) {
  throw UsageError(fmt::format(format, std::forward<Args>(args)...));
}

/// Says why `program` ends, in the last thing that it prints and always one line; returns `code`.
inline int fail_program(const char* program, int code, std::string cause) {
  std::replace(cause.begin(), cause.end(), '\n', ' ');
  std::fflush(stdout);
  const std::string line = fmt::format("{}: error: {}\n", program, cause);
  std::fputs(line.c_str(), stderr);  // unlike fmt::print it does not throw where stderr is closed
  return code;
}

}  // namespace tandem
