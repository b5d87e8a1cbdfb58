#include "tandem/distributed/stores/file_store.h"

#include <algorithm>
#include <mutex>
#include <thread>
#include <utility>

#include "tandem/distributed/error.h"
#include "tandem/distributed/network/deadline.h"
#include "tandem/distributed/stores/file_log.h"

namespace tandem::distributed {
namespace {

// A file tells nobody that it has changed.
constexpr Milliseconds kFirstPause(10), kLongestPause(50);

}  // namespace

class FileStore::Log {
 public:
  explicit Log(const std::filesystem::path& path) : file(path) {}

  std::mutex mutex;
  FileLog file;
};

FileStore::FileStore(const std::filesystem::path& path)
    : log_(std::make_unique<Log>(std::filesystem::absolute(path).lexically_normal())) {}
FileStore::~FileStore() = default;

void FileStore::set(const std::string& key, const std::string& value) {
  check_key(key);
  check_value(key, value);
  const std::lock_guard lock(log_->mutex);
  FileLog::Turn(log_->file).set(key, value);
}

std::optional<std::string> FileStore::get(const std::string& key, Milliseconds timeout) {
  check_key(key);
  const Deadline deadline(timeout);
  const std::lock_guard lock(log_->mutex);
  for (Milliseconds pause = kFirstPause;; pause = std::min(pause + kFirstPause, kLongestPause)) {
    if (log_->file.has_grown()) const FileLog::Turn turn(log_->file);
    auto value = log_->file.contents().find(key);
    if (value || deadline.has_passed()) return value;
    std::this_thread::sleep_for(std::min(pause, deadline.nap()));
  }
}

std::int64_t FileStore::add(const std::string& key, std::int64_t amount) {
  check_key(key);
  const std::lock_guard lock(log_->mutex);
  FileLog::Turn turn(log_->file);
  Dictionary changed;
  if (const auto value = log_->file.contents().find(key)) changed.set(key, *value);
  const std::int64_t sum = changed.add(key, amount);
  turn.set(key, std::to_string(sum));
  return sum;
}

std::optional<std::string> FileStore::compare_and_set(const std::string& key,
                                                      const std::optional<std::string>& expected,
                                                      const std::string& desired) {
  check_key(key);
  check_value(key, desired);
  const std::lock_guard lock(log_->mutex);
  FileLog::Turn turn(log_->file);
  if (log_->file.contents().find(key) == expected) turn.set(key, desired);
  return log_->file.contents().find(key);
}

bool FileStore::remove(const std::string& key) {
  check_key(key);
  const std::lock_guard lock(log_->mutex);
  FileLog::Turn turn(log_->file);
  if (!log_->file.contents().find(key)) return false;
  turn.remove(key);
  return true;
}

std::shared_ptr<Store> FileStore::connect_again() {
  const std::lock_guard lock(log_->mutex);
  log_->file.has_grown();  // throws where it is gone: opening it would make a new one
  return std::make_shared<FileStore>(log_->file.path());
}

std::string FileStore::str() const { return "file://" + log_->file.path().string(); }

}  // namespace tandem::distributed
