#include "tandem/distributed/failure_callbacks.h"

#include <mutex>
#include <utility>

namespace tandem::distributed {

class FailureCallbacks::Subscription {
 public:
  explicit Subscription(Callback callback) : callback_(std::move(callback)) {}

  void call(const Failure& failure) {
    const std::lock_guard lock(mutex_);
    const auto once = std::exchange(callback_, nullptr);
    if (!once) return;
    try {
      once(failure);
    } catch (...) {  // The failure itself is what counts.
    }
  }

  void remove() {
    const std::lock_guard lock(mutex_);
    callback_ = nullptr;
  }

 private:
  std::recursive_mutex mutex_;  // a callback may end its own subscription
  Callback callback_;
};

void FailureCallbacks::call(const std::vector<std::shared_ptr<Subscription>>& subscriptions, const Failure& failure) {
  for (const auto& subscription : subscriptions) subscription->call(failure);
}

std::shared_ptr<void> FailureCallbacks::handle(std::shared_ptr<Subscription> subscription) {
  void* const address = subscription.get();
  return {address, [kept = std::move(subscription)](void*) { kept->remove(); }};
}

std::shared_ptr<FailureCallbacks::Subscription> FailureCallbacks::add(Callback callback) {
  // Those whose handle is gone are known to nobody else.
  std::erase_if(subscriptions_, [](const auto& subscription) { return subscription.use_count() == 1; });
  return subscriptions_.emplace_back(std::make_shared<Subscription>(std::move(callback)));
}

std::vector<std::shared_ptr<FailureCallbacks::Subscription>> FailureCallbacks::take() {
  return std::exchange(subscriptions_, {});
}

}  // namespace tandem::distributed
