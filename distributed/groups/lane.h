// Lane: a thread of a group that handles items one after the other, in the order in which they are given: collectives
// that it runs, or that it waits for without making its caller wait.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "tandem/core/start_thread.h"
#include "tandem/distributed/groups/no_sigpipe.h"
#include "tandem/distributed/groups/prompt_thread.h"

namespace tandem::distributed {

template <class Item>
class Lane {
 public:
  /// `handle` must not throw.
  explicit Lane(std::function<void(Item&)> handle) : handle_(std::move(handle)) {
    thread_ = core::start_thread("of a group", [this] { return std::thread([this] { run(); }); });
  }
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
  /// Whether all that was given has been handled.
  bool is_idle() const {
    const std::lock_guard lock(mutex_);
    return items_.empty() && !is_handling_;
  }

 private:
  void run() {
    const NoSigpipe no_sigpipe;
    const PromptThread prompt;
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return is_stopping_ || !items_.empty(); });
      if (items_.empty()) return;
      Item item = std::move(items_.front());
      items_.pop_front();
      is_handling_ = true;
      lock.unlock();
      handle_(item);
      lock.lock();
      is_handling_ = false;
    }
  }

  std::function<void(Item&)> handle_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;
  bool is_handling_ = false, is_stopping_ = false;
  std::thread thread_;
};

}  // namespace tandem::distributed
