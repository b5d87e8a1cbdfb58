// A shared pointer whose count lives in the object: one word per handle, one allocation per object.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace tandem::core {

/// Base of objects held by IntrusivePtr. Not copyable: identity is the point.
class RefCounted {
 public:
  RefCounted() = default;
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;

  void add_reference() const { count_.fetch_add(1, std::memory_order_relaxed); }
  /// True when this was the last reference.
  bool drop_reference() const { return count_.fetch_sub(1, std::memory_order_acq_rel) == 1; }
  bool is_unique() const { return count_.load(std::memory_order_acquire) == 1; }

 protected:
  ~RefCounted() = default;

 private:
  mutable std::atomic<std::uint32_t> count_{0};
};

/// Shared ownership of a RefCounted T. When the last handle goes, `dispose(T*)` is called, found beside T: the place
/// for a type to be destroyed in its own way (a chain of nodes without recursion, say).
template <class T>
class IntrusivePtr {
 public:
  IntrusivePtr() = default;
  explicit IntrusivePtr(T* object) : object_(object) {
    if (object_) object_->add_reference();
  }
  IntrusivePtr(const IntrusivePtr& other) : IntrusivePtr(other.object_) {}
  IntrusivePtr(IntrusivePtr&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  IntrusivePtr& operator=(IntrusivePtr other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~IntrusivePtr() {
    if (object_ && object_->drop_reference()) dispose(object_);
  }

  T* get() const { return object_; }
  T& operator*() const { return *object_; }
  T* operator->() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }
  bool operator==(const IntrusivePtr& other) const { return object_ == other.object_; }

 private:
  T* object_ = nullptr;
};

}  // namespace tandem::core
