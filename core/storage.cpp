#include "tandem/core/storage.h"

#include <utility>

#include "tandem/core/allocator.h"
#include "tandem/core/guarded/memory.h"

namespace tandem::core {

Storage::Storage(std::size_t bytes, Device device)
    : data_(allocator(device).allocate(bytes)), bytes_(bytes), device_(device) {
  if (device == kGuarded) as_kernels_see_ = StoragePtr(new Storage(guarded::as_kernels_see(data_), bytes, kCpu, [] {}));
}

Storage::Storage(void* data, std::size_t bytes, Device device, std::function<void()> free)
    : data_(data), bytes_(bytes), device_(device), free_(std::move(free)) {}

Storage::~Storage() {
  if (free_) {
    free_();
  } else {
    allocator(device_).release(data_, bytes_);
  }
}

void dispose(Storage* storage) { delete storage; }

}  // namespace tandem::core
