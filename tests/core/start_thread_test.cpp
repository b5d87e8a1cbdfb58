// What is said if the system has no thread left.
#include "tandem/core/start_thread.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/errors.h"

namespace tandem::core {
namespace {

TEST(StartThread, OneThatCannotBeIsAnErrorThatSaysWhatToDo) {
  int ran = 0;
  start_thread("that adds", [&] { return std::thread([&] { ++ran; }); }).join();
  EXPECT_EQ(ran, 1);
  const auto refused = []() -> std::thread {
    throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
  };
  EXPECT_EQ(testing::error_of([&] { start_thread("that serves the store", refused); }),
            "cannot start a thread that serves the store: Resource temporarily unavailable; raise the limit of threads "
            "(ulimit -u, a container's limit of pids) or of memory, or use fewer (--threads)");
}

TEST(StartThread, ComputeThreadsThatFitAreNoError) {
  for (const int threads : {1, 2, 17}) check_compute_threads(threads);
}

}  // namespace
}  // namespace tandem::core
