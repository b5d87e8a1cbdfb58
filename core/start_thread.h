// Threads that the system may refuse: by a limit of the user, of a container, or of memory.
#pragma once

#include <string>
#include <system_error>

namespace tandem::core {

/// Throws Error: "cannot start a thread PURPOSE: ..., and what to do".
[[noreturn]] void fail_for_threads(const std::string& purpose, const std::system_error& error);

/// What `start` returns, a std::thread or std::jthread. Throws Error if there can be no more threads; `purpose`:
/// "that serves the store".
template <class Start>
auto start_thread(const std::string& purpose, Start&& start) {
  try {
    return start();
  } catch (const std::system_error& error) {
    fail_for_threads(purpose, error);
  }
}

/// Throws Error if `threads` compute threads cannot live beside those there are, so that it is said before OpenMP ends
/// the process without a word of whose.
void check_compute_threads(int threads);

}  // namespace tandem::core
