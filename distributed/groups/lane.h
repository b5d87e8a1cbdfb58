// Lane: a thread that handles items one after the other, in the order in which they are given: for groups that wrap
// others and must wait for them without making their caller wait.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace tandem::distributed {

template <class Item>
class Lane {
 public:
  /// `handle` must not throw.
  explicit Lane(std::function<void(Item&)> handle) : handle_(std::move(handle)), thread_([this] { run(); }) {}
  /// Returns when all that was given has been handled.
  ~Lane() {
    {
      const std::lock_guard lock(mutex_);
      is_stopping_ = true;
      changed_.notify_one();
    }
    thread_.join();
  }
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  void push(Item item) {
    const std::lock_guard lock(mutex_);
    items_.push_back(std::move(item));
    changed_.notify_one();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return is_stopping_ || !items_.empty(); });
      if (items_.empty()) return;
      Item item = std::move(items_.front());
      items_.pop_front();
      lock.unlock();
      handle_(item);
      lock.lock();
    }
  }

  std::function<void(Item&)> handle_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;
  bool is_stopping_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace tandem::distributed
