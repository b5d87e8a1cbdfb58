#include "tandem/core/allocator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
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

// TANDEM_POISON_MEMORY has this value, null for none, as long as this lives.
class PoisonVariable {
 public:
  explicit PoisonVariable(const char* value) {
    if (const char* before = std::getenv(kName)) before_ = before;
    set(value);
  }
  ~PoisonVariable() { set(before_ ? before_->c_str() : nullptr); }

 private:
  static constexpr const char* kName = "TANDEM_POISON_MEMORY";
  static void set(const char* value) { value == nullptr ? unsetenv(kName) : setenv(kName, value, 1); }

  std::optional<std::string> before_;
};

TEST(Allocator, PoisonFillsFreshAndRecycledBlocksWithNaN) {
  const PoisonVariable variable("1");
  CachingAllocator allocator;
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{64}, std::size_t{1000}, std::size_t{9} << 20}) {
    void* first = nullptr;
    for (const char* which : {"fresh", "recycled"}) {
      void* block = allocator.allocate(bytes);
      if (first == nullptr) first = block;
      ASSERT_EQ(block, first) << which;
      const auto* values = static_cast<const unsigned char*>(block);
      const auto size = static_cast<std::ptrdiff_t>(CachingAllocator::rounded_size(bytes));
      EXPECT_EQ(std::count(values, values + size, 0xff), size) << which << ", " << bytes << " bytes";
      EXPECT_TRUE(std::isnan(*static_cast<const float*>(block))) << which;
      EXPECT_TRUE(std::isnan(*static_cast<const double*>(block))) << which;
      std::memset(block, 1, bytes);
      allocator.release(block, bytes);
    }
  }
  EXPECT_EQ(allocator.allocate(0), nullptr);
}

TEST(Allocator, RecycledBlocksAreLeftAloneWithoutPoison) {
  for (const char* value : {static_cast<const char*>(nullptr), "", "0"}) {
    const PoisonVariable variable(value);
    CachingAllocator allocator;
    void* block = allocator.allocate(1000);
    std::memset(block, 1, 1000);
    allocator.release(block, 1000);
    const auto* again = static_cast<const unsigned char*>(allocator.allocate(1000));
    EXPECT_EQ(std::count(again, again + 1000, 1), 1000);
    allocator.release(block, 1000);
  }
}

TEST(Allocator, PoisonIsZeroOrOne) {
  const PoisonVariable variable("yes");
  TANDEM_EXPECT_ERROR(CachingAllocator(), "TANDEM_POISON_MEMORY is yes, but must be 0 or 1");
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
