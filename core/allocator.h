// The caching allocator: memory that a tensor gave back is handed to the next one of its size.
//
// A training step asks for the same sizes again and again, while a fresh large malloc costs a page fault per 4 KiB
// every time. Blocks are 64-byte aligned (a cache line, an AVX-512 register) and rounded up to one of a few sizes per
// power of two.
//
// A kernel that leaves a part of its result unwritten returns what an earlier tensor left there, which often looks
// right. TANDEM_POISON_MEMORY=1 in the environment makes that show: each block is handed out full of bytes 0xff, which
// is NaN in every floating type and -1 in integers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "tandem/core/alignment.h"
#include "tandem/core/device.h"

namespace tandem::core {

/// Bytes, except the last three, which count calls.
struct AllocatorStatistics {
  std::size_t in_use = 0;  ///< handed out now
  std::size_t peak = 0;    ///< most that was ever handed out at once, since reset_peak()
  std::size_t cached = 0;  ///< kept for reuse
  std::uint64_t allocations = 0;
  std::uint64_t hits = 0;  ///< of these, served from the cache
  std::uint64_t releases = 0;
};

/// Where a device's memory comes from.
struct MemorySource {
  void* (*take)(std::size_t bytes);  ///< aligned to kAlignment; null if there is none left
  void (*give_back)(void* block, std::size_t bytes) noexcept;
  void* (*as_kernels_see)(void* block);  ///< where the block may be written to
};

/// Safe to use from several threads. The process has one for each device, reached through allocator().
class CachingAllocator {
 public:
  /// Of the host's memory. Throws Error if TANDEM_POISON_MEMORY is neither 0 nor 1.
  CachingAllocator();
  explicit CachingAllocator(const MemorySource& source);
  ~CachingAllocator();
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  /// At least `bytes` bytes, aligned to kAlignment, not initialised (TANDEM_POISON_MEMORY=1: full of 0xff). Zero bytes
  /// give a null pointer. Throws Error when the machine has no more memory, after giving back the cache.
  void* allocate(std::size_t bytes);
  /// `bytes` is what was asked for.
  void release(void* block, std::size_t bytes) noexcept;
  /// Gives the cached blocks back to the system.
  void empty_cache() noexcept;

  AllocatorStatistics statistics() const;
  void reset_peak();

  /// The size that a request really occupies.
  static std::size_t rounded_size(std::size_t bytes);

 private:
  void* take(std::size_t bytes);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Throws Error if this build has no memory on `device`.
CachingAllocator& allocator(Device device);

}  // namespace tandem::core
