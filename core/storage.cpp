#include "tandem/core/storage.h"

#include <utility>

#include "tandem/core/allocator.h"
#include "tandem/core/error.h"

namespace tandem::core {

Storage::Storage(std::size_t bytes, Device device) : bytes_(bytes), device_(device) {
  if (device.type != DeviceType::cpu) fail("storage: this build has no allocator for device {}", device.str());
  data_ = cpu_allocator().allocate(bytes);
}

Storage::Storage(void* data, std::size_t bytes, Device device, std::function<void()> free)
    : data_(data), bytes_(bytes), device_(device), free_(std::move(free)) {}

Storage::~Storage() {
  if (free_) {
    free_();
  } else {
    cpu_allocator().release(data_, bytes_);
  }
}

}  // namespace tandem::core
