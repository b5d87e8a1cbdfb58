#include "tandem/distributed/stores/memory_store.h"

#include <condition_variable>
#include <mutex>
#include <utility>

#include "tandem/distributed/network/deadline.h"
#include "tandem/distributed/stores/dictionary.h"

namespace tandem::distributed {

struct MemoryStore::Contents {
  std::mutex mutex;
  std::condition_variable changed;
  Dictionary dictionary;
};

MemoryStore::MemoryStore() : MemoryStore(std::make_shared<Contents>()) {}
MemoryStore::MemoryStore(std::shared_ptr<Contents> contents) : contents_(std::move(contents)) {}

void MemoryStore::set(const std::string& key, const std::string& value) {
  check_key(key);
  check_value(key, value);
  const std::lock_guard lock(contents_->mutex);
  contents_->dictionary.set(key, value);
  contents_->changed.notify_all();
}

std::optional<std::string> MemoryStore::get(const std::string& key, Milliseconds timeout) {
  check_key(key);
  const Deadline deadline(timeout);
  std::unique_lock lock(contents_->mutex);
  std::optional<std::string> value;
  wait_until(contents_->changed, lock, deadline.when(), [&] {
    value = contents_->dictionary.find(key);
    return value.has_value();
  });
  return value;
}

std::int64_t MemoryStore::add(const std::string& key, std::int64_t amount) {
  check_key(key);
  const std::lock_guard lock(contents_->mutex);
  const std::int64_t sum = contents_->dictionary.add(key, amount);
  contents_->changed.notify_all();
  return sum;
}

std::optional<std::string> MemoryStore::compare_and_set(const std::string& key,
                                                        const std::optional<std::string>& expected,
                                                        const std::string& desired) {
  check_key(key);
  check_value(key, desired);
  const std::lock_guard lock(contents_->mutex);
  if (contents_->dictionary.compare_and_set(key, expected, desired)) contents_->changed.notify_all();
  return contents_->dictionary.find(key);
}

bool MemoryStore::remove(const std::string& key) {
  check_key(key);
  const std::lock_guard lock(contents_->mutex);
  return contents_->dictionary.remove(key);
}

// Waiting calls let go of the mutex, so that connections differ in nothing.
std::shared_ptr<Store> MemoryStore::connect_again() { return std::shared_ptr<MemoryStore>(new MemoryStore(contents_)); }

}  // namespace tandem::distributed
