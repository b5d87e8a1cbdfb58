// Who wants to be called when a run fails (watch.h).
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "tandem/distributed/failure.h"

namespace tandem::distributed {

/// Not safe from several threads by itself, but for the handles, which may be destroyed on any thread at any time.
class FailureCallbacks {
 public:
  using Callback = std::function<void(const Failure&)>;

  /// A callback and the lock that its removal waits for.
  class Subscription;
  /// Calls each once, those that threw included; nobody is there to be told.
  static void call(const std::vector<std::shared_ptr<Subscription>>& subscriptions, const Failure& failure);
  /// Ends when it is destroyed, which waits for a call that is running on another thread.
  static std::shared_ptr<void> handle(std::shared_ptr<Subscription> subscription);

  std::shared_ptr<Subscription> add(Callback callback);
  /// All of them; none stays.
  std::vector<std::shared_ptr<Subscription>> take();

 private:
  std::vector<std::shared_ptr<Subscription>> subscriptions_;
};

}  // namespace tandem::distributed
