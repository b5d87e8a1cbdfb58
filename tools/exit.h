// How the programs end: their exit codes, wrong usage, and the last line that they print.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
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

/// The end of a program that has done what it was asked for: `code`, but kFailed if what it printed did not arrive.
inline int end_program(const char* program, int code = 0) {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  return fail_program(
      program, kFailed,
      fmt::format("standard output cannot be written{}{}", errno ? ": " : "", errno ? std::strerror(errno) : ""));
}

/// The whole of a program without other ranks: runs `f`, and turns what it throws into the last line and the exit code.
template <class F>
int run_program(const char* program, F&& f) {
  try {
    f();
    return end_program(program);
  } catch (const UsageError& error) {
    return fail_program(program, kWrongUsage, error.what());
  } catch (const std::bad_alloc&) {
    return fail_program(program, kFailed, "out of memory");
  } catch (const std::exception& error) {
    return fail_program(program, kFailed, error.what());
  }
}

}  // namespace tandem
