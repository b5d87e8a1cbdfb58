#include "tandem/core/guarded/memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "tandem/core/alignment.h"

namespace tandem::core::guarded {
namespace {

// Only addresses: pages get memory when kernels touch them.
constexpr std::size_t kRoom = std::size_t{1} << 37;
constexpr std::size_t kPage = 4096;

struct Arena {
  std::mutex mutex;
  std::byte* forbidden = nullptr;  // kRoom bytes that nobody may touch; behind them as many that kernels may
  std::size_t used = 0;
  std::map<std::size_t, std::vector<void*>> given_back;  // by size

  Arena() {
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void* const room = mmap(nullptr, 2 * kRoom, PROT_NONE, kFlags, -1, 0);
    if (room == MAP_FAILED) return;
    auto* const begin = static_cast<std::byte*>(room);
    if (mprotect(begin + kRoom, kRoom, PROT_READ | PROT_WRITE) == 0) forbidden = begin;
  }
};

Arena& arena() {
  static Arena* const only = new Arena;  // never destroyed: tensors in static storage may outlive any order
  return *only;
}

}  // namespace

void* take(std::size_t bytes) {
  Arena& a = arena();
  const std::size_t size = align_up(bytes);
  const std::lock_guard lock(a.mutex);
  if (auto& free = a.given_back[size]; !free.empty()) {
    void* const block = free.back();
    free.pop_back();
    return block;
  }
  if (a.forbidden == nullptr || size > kRoom - a.used) return nullptr;
  void* const block = a.forbidden + a.used;
  a.used += size;
  return block;
}

void give_back(void* block, std::size_t bytes) noexcept {
  Arena& a = arena();
  const std::size_t size = align_up(bytes);
  const auto begin = reinterpret_cast<std::uintptr_t>(as_kernels_see(block));
  const std::uintptr_t first_page = align_up(begin, kPage), end = (begin + size) / kPage * kPage;
  if (first_page < end) madvise(reinterpret_cast<void*>(first_page), end - first_page, MADV_DONTNEED);
  const std::lock_guard lock(a.mutex);
  try {
    a.given_back[size].push_back(block);
  } catch (const std::exception&) {  // no memory to remember it with: its addresses are lost
  }
}

void* as_kernels_see(void* at) { return static_cast<std::byte*>(at) + kRoom; }

}  // namespace tandem::core::guarded
