// Memory with an owner, a count of its changes, and room for what was derived from it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "tandem/core/device.h"
#include "tandem/core/intrusive_ptr.h"

namespace tandem::core {

class Storage;
void dispose(Storage* storage);
using StoragePtr = IntrusivePtr<Storage>;

/// A flat block of bytes that any number of tensors (views) share.
class Storage final : public RefCounted {
 public:
  /// Takes `bytes` from the device's allocator, not initialised.
  Storage(std::size_t bytes, Device device);
  /// Wraps foreign memory; `free` runs when the last tensor is gone. Who changes it from outside calls bump_version().
  Storage(void* data, std::size_t bytes, Device device, std::function<void()> free);
  ~Storage();

  /// Where it begins, in the device's own addresses: the host may not touch what is not the host's.
  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  Device device() const { return device_; }

  /// Grows with every request for write access: how autograd notices that a saved tensor was changed, and how a cached
  /// packed copy knows that it is stale.
  std::uint64_t version() const { return version_.load(std::memory_order_relaxed); }
  void bump_version() { version_.store(version() + 1, std::memory_order_relaxed); }

  /// Something computed from the contents that may be kept along with them: the right side of products
  /// as oneDNN wants it (core/cpu/onednn.cpp), which guards the slot, since several threads may compute with it.
  std::shared_ptr<void>& derived() { return derived_; }

  /// Of the guarded device: the same bytes where kernels may touch them (core/guarded/call.h).
  const StoragePtr& as_kernels_see() const { return as_kernels_see_; }
  /// Counts the changes that `other`, of the same bytes, has seen.
  void catch_up_with(const Storage& other) {
    if (version() < other.version()) version_.store(other.version(), std::memory_order_relaxed);
  }

 private:
  void* data_;
  std::size_t bytes_;
  Device device_;
  std::atomic<std::uint64_t> version_{0};
  std::function<void()> free_;
  std::shared_ptr<void> derived_;
  StoragePtr as_kernels_see_;
};

}  // namespace tandem::core
