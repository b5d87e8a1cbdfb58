#include "tandem/core/allocator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/errors.h"

namespace tandem::core {
namespace {

TEST(Allocator, RoundedSizeCoversTheRequestAndWastesAnEighthAtMost) {
  std::size_t previous = 0;
  for (std::size_t bytes = 1; bytes < 100000; ++bytes) {
    const std::size_t size = CachingAllocator::rounded_size(bytes);
    ASSERT_GE(size, bytes);
    ASSERT_EQ(size % kAlignment, 0u);
    ASSERT_LE(size - bytes, std::max(kAlignment, bytes / 8)) << bytes;
    ASSERT_GE(size, previous) << bytes;
    ASSERT_EQ(CachingAllocator::rounded_size(size), size) << "a size is its own class";
    previous = size;
  }
}

// Were two sizes to share a class, a block would come back that is too small: the address sanitizer sees these writes.
TEST(Allocator, BlocksAreAlignedAndLargeEnough) {
  CachingAllocator allocator;
  for (int round = 0; round < 2; ++round)
    for (std::size_t bytes = 1; bytes < 40000; bytes += bytes < 2000 ? 1 : 97) {
      void* block = allocator.allocate(bytes);
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(block) % kAlignment, 0u);
      std::memset(block, 1, bytes);
      allocator.release(block, bytes);
    }
  EXPECT_EQ(allocator.statistics().in_use, 0u);
}

TEST(Allocator, ReusesBlocksAndCounts) {
  CachingAllocator allocator;
  void* first = allocator.allocate(1000);
  const std::size_t size = CachingAllocator::rounded_size(1000);
  EXPECT_EQ(allocator.statistics().in_use, size);
  allocator.release(first, 1000);
  EXPECT_EQ(allocator.statistics().cached, size);
  EXPECT_EQ(allocator.allocate(size), first) << "same class, same block";
  void* second = allocator.allocate(1000);
  EXPECT_NE(second, first);
  AllocatorStatistics s = allocator.statistics();
  EXPECT_EQ(s.in_use, 2 * size);
  EXPECT_EQ(s.peak, 2 * size);
  EXPECT_EQ(s.cached, 0u);
  EXPECT_EQ(s.allocations, 3u);
  EXPECT_EQ(s.hits, 1u);
  EXPECT_EQ(s.releases, 1u);
  allocator.release(first, size);
  allocator.reset_peak();
  EXPECT_EQ(allocator.statistics().peak, size);
  allocator.release(second, 1000);
  allocator.empty_cache();
  s = allocator.statistics();
  EXPECT_EQ(s.cached, 0u);
  EXPECT_EQ(s.in_use, 0u);
}

TEST(Allocator, NothingForNothing) {
  CachingAllocator allocator;
  EXPECT_EQ(allocator.allocate(0), nullptr);
  allocator.release(nullptr, 0);
  EXPECT_EQ(allocator.statistics().allocations, 0u);
}

TEST(Allocator, ImpossibleRequestsThrowAndLeaveNoTrace) {
  CachingAllocator allocator;
  TANDEM_EXPECT_ERROR(allocator.allocate(std::size_t{1} << 60), "allocator: 1152921504606846976 bytes asked for");
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which end the program instead
  TANDEM_EXPECT_ERROR(allocator.allocate(std::size_t{1} << 49),
                      "allocator: no memory for");  // more than the address space
#endif
  EXPECT_EQ(allocator.statistics().in_use, 0u);
  EXPECT_EQ(allocator.statistics().peak, 0u);
}

TEST(Allocator, ThreadsGetBlocksOfTheirOwn) {
  CachingAllocator allocator;
  std::vector<std::thread> threads;
  std::atomic<int> clashes{0};
  for (int id = 1; id <= 4; ++id)
    threads.emplace_back([&, id] {
      for (int i = 0; i < 2000; ++i) {
        const std::size_t bytes = 64 * static_cast<std::size_t>(1 + i % 5);
        auto* block = static_cast<unsigned char*>(allocator.allocate(bytes));
        std::memset(block, id, bytes);
        std::this_thread::yield();
        for (std::size_t k = 0; k < bytes; ++k) clashes += block[k] != id;
        allocator.release(block, bytes);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(clashes, 0);
  EXPECT_EQ(allocator.statistics().in_use, 0u);
  EXPECT_EQ(allocator.statistics().allocations, 8000u);
}

}  // namespace
}  // namespace tandem::core
