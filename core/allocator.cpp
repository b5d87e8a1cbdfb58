#include "tandem/core/allocator.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <string_view>
#include <vector>

#include "tandem/core/error.h"
#include "tandem/core/guarded/memory.h"

namespace tandem::core {
namespace {

// Size classes: multiples of 64 up to 512, then eight equal steps per power of two, so at most an eighth is wasted.
constexpr std::size_t kStepsPerDoubling = 8;
constexpr std::size_t kLinearLimit = kStepsPerDoubling * kAlignment;
constexpr std::size_t kClasses = kStepsPerDoubling * 48;

std::size_t class_of(std::size_t bytes) {
  if (bytes <= kLinearLimit) return divide_up(bytes, kAlignment) - 1;
  const auto octave = static_cast<std::size_t>(std::bit_width(bytes - 1)) - 10;  // 0 for (512, 1024]
  const std::size_t step = kAlignment << octave;
  return kStepsPerDoubling * (octave + 1) + (bytes - 1) / step - kStepsPerDoubling;
}

// Of the blocks of a class: the inverse of class_of.
std::size_t size_of(std::size_t size_class) {
  if (size_class < kStepsPerDoubling) return (size_class + 1) * kAlignment;
  const std::size_t octave = size_class / kStepsPerDoubling - 1, steps = size_class % kStepsPerDoubling;
  return (kLinearLimit << octave) + (steps + 1) * (kAlignment << octave);
}

// Large blocks lie in pages of 2 MiB where the system has them: fewer page faults, and fewer misses of the buffer that
// remembers translations of addresses.
void* from_system(std::size_t size) {
  constexpr std::size_t kPage = std::size_t{1} << 21, kLarge = 4 * kPage;
  if (size < kLarge) return std::aligned_alloc(kAlignment, size);
  void* block = std::aligned_alloc(kPage, align_up(size, kPage));
  if (block != nullptr) madvise(block, size, MADV_HUGEPAGE);  // a wish
  return block;
}

constexpr MemorySource kHost{.take = from_system,
                             .give_back = [](void* block, std::size_t) noexcept { std::free(block); },
                             .as_kernels_see = [](void* block) { return block; }};
constexpr MemorySource kGuardedMemory{
    .take = guarded::take, .give_back = guarded::give_back, .as_kernels_see = guarded::as_kernels_see};

bool poison_is_asked_for() {
  const char* value = std::getenv("TANDEM_POISON_MEMORY");
  const std::string_view given = value == nullptr ? "" : value;
  if (given != "" && given != "0" && given != "1") fail("TANDEM_POISON_MEMORY is {}, but must be 0 or 1", given);
  return given == "1";
}

}  // namespace

std::size_t CachingAllocator::rounded_size(std::size_t bytes) {
  if (bytes <= kLinearLimit) return align_up(bytes);
  const std::size_t step = kAlignment << (static_cast<std::size_t>(std::bit_width(bytes - 1)) - 10);
  return align_up(bytes, step);
}

struct CachingAllocator::Impl {
  const MemorySource source;
  const bool poisons = poison_is_asked_for();
  mutable std::mutex mutex;
  std::array<std::vector<void*>, kClasses> free_blocks;
  AllocatorStatistics statistics;
};

CachingAllocator::CachingAllocator() : CachingAllocator(kHost) {}
CachingAllocator::CachingAllocator(const MemorySource& source)
    : impl_(new Impl{.source = source, .mutex = {}, .free_blocks = {}, .statistics = {}}) {}
CachingAllocator::~CachingAllocator() { empty_cache(); }

void* CachingAllocator::allocate(std::size_t bytes) {
  void* block = take(bytes);
  if (impl_->poisons && block != nullptr) std::memset(impl_->source.as_kernels_see(block), 0xff, rounded_size(bytes));
  return block;
}

void* CachingAllocator::take(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  if (bytes > (std::size_t{1} << 50)) fail("allocator: {} bytes asked for, more than any machine has", bytes);
  const std::size_t size = rounded_size(bytes);
  {
    const std::lock_guard lock(impl_->mutex);
    AllocatorStatistics& s = impl_->statistics;
    ++s.allocations;
    auto& blocks = impl_->free_blocks[class_of(bytes)];
    if (!blocks.empty()) {
      void* block = blocks.back();
      blocks.pop_back();
      ++s.hits;
      s.cached -= size;
      s.in_use += size;
      s.peak = std::max(s.peak, s.in_use);
      return block;
    }
  }
  void* block = impl_->source.take(size);
  if (block == nullptr) {
    empty_cache();
    block = impl_->source.take(size);
  }
  const std::lock_guard lock(impl_->mutex);
  AllocatorStatistics& s = impl_->statistics;
  if (block == nullptr) fail("allocator: no memory for {} bytes ({} bytes are in use)", bytes, s.in_use);
  s.in_use += size;
  s.peak = std::max(s.peak, s.in_use);
  return block;
}

void CachingAllocator::release(void* block, std::size_t bytes) noexcept {
  if (block == nullptr) return;
  const std::size_t size = rounded_size(bytes);
  const std::lock_guard lock(impl_->mutex);
  AllocatorStatistics& s = impl_->statistics;
  ++s.releases;
  s.in_use -= size;
  try {
    impl_->free_blocks[class_of(bytes)].push_back(block);
    s.cached += size;
  } catch (const std::bad_alloc&) {  // no memory to remember the block with: the system gets it back
    impl_->source.give_back(block, size);
  }
}

void CachingAllocator::empty_cache() noexcept {
  const std::lock_guard lock(impl_->mutex);
  for (std::size_t c = 0; c < kClasses; ++c) {
    for (void* block : impl_->free_blocks[c]) impl_->source.give_back(block, size_of(c));
    impl_->free_blocks[c].clear();
  }
  impl_->statistics.cached = 0;
}

AllocatorStatistics CachingAllocator::statistics() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->statistics;
}

void CachingAllocator::reset_peak() {
  const std::lock_guard lock(impl_->mutex);
  impl_->statistics.peak = impl_->statistics.in_use;
}

CachingAllocator& allocator(Device device) {
  // Never destroyed: tensors in static storage may outlive any order of destruction.
  static CachingAllocator* const host = new CachingAllocator;
  if (device == kCpu) return *host;
  if (device != kGuarded) fail("allocator: this build has no memory on device {}", device.str());
  static CachingAllocator* const guarded = new CachingAllocator(kGuardedMemory);
  return *guarded;
}

}  // namespace tandem::core
