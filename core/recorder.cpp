#include "tandem/core/recorder.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>

namespace tandem::core::recorder {
namespace {

// A thread's buffer outlives the thread: the registry shares it.
struct Buffer {
  std::mutex mutex;  // the writer's own but for drain()
  std::vector<Event> events;
  int thread = 0;
};

struct Registry {
  std::mutex mutex;
  std::vector<std::shared_ptr<Buffer>> buffers;
};

Registry& registry() {
  static Registry* const instance = new Registry;
  return *instance;
}

Buffer& this_threads_buffer() {
  thread_local const std::shared_ptr<Buffer> buffer = [] {
    auto created = std::make_shared<Buffer>();
    const std::lock_guard lock(registry().mutex);
    created->thread = static_cast<int>(registry().buffers.size());
    registry().buffers.push_back(created);
    return created;
  }();
  return *buffer;
}

}  // namespace

void enable(bool on) { enabled_flag.store(on, std::memory_order_relaxed); }

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void add(const char* name, const char* category, std::int64_t begin_ns, std::int64_t end_ns, Cost cost) {
  Buffer& buffer = this_threads_buffer();
  const std::lock_guard lock(buffer.mutex);
  buffer.events.push_back({name, category, begin_ns, end_ns, buffer.thread, cost.flops, cost.bytes});
}

std::vector<Event> drain() {
  std::vector<Event> all;
  const std::lock_guard lock(registry().mutex);
  for (const auto& buffer : registry().buffers) {
    const std::lock_guard buffer_lock(buffer->mutex);
    all.insert(all.end(), buffer->events.begin(), buffer->events.end());
    buffer->events.clear();
  }
  std::stable_sort(all.begin(), all.end(), [](const Event& a, const Event& b) { return a.begin_ns < b.begin_ns; });
  return all;
}

}  // namespace tandem::core::recorder
