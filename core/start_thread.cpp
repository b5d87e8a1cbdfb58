#include "tandem/core/start_thread.h"

#include <latch>
#include <thread>
#include <vector>

#include "tandem/core/error.h"

namespace tandem::core {

void fail_for_threads(const std::string& purpose, const std::system_error& error) {
  fail(
      "cannot start a thread {}: {}; raise the limit of threads (ulimit -u, a container's limit of pids) or of memory, "
      "or use fewer (--threads)",
      purpose, error.code().message());
}

// All at once, as they will live.
void check_compute_threads(int threads) {
  std::latch all_are_made(1);
  std::vector<std::jthread> made;  // joined when they are destroyed
  try {
    for (int i = 1; i < threads; ++i)
      made.push_back(start_thread("that computes", [&] { return std::jthread([&] { all_are_made.wait(); }); }));
  } catch (...) {
    all_are_made.count_down();
    throw;
  }
  all_are_made.count_down();
}

}  // namespace tandem::core
