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

/// A flat block of bytes that any number of tensors (views) share.
class Storage final : public RefCounted {
 public:
  /// Takes `bytes` from the device's allocator, not initialised.
  Storage(std::size_t bytes, Device device);
  /// Wraps foreign memory; `free` runs when the last tensor is gone. Who changes it from outside calls bump_version().
  Storage(void* data, std::size_t bytes, Device device, std::function<void()> free);
  ~Storage();

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

 private:
  void* data_;
  std::size_t bytes_;
  Device device_;
  std::atomic<std::uint64_t> version_{0};
  std::function<void()> free_;
  std::shared_ptr<void> derived_;
};

inline void dispose(Storage* storage) { delete storage; }

using StoragePtr = IntrusivePtr<Storage>;

}  // namespace tandem::core
