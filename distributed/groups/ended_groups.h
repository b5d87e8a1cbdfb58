// EndedGroups: connections of groups that have ended on this rank, while the world lasts. The end of a connection would
// cut off a peer that is still in the last collective.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace tandem::distributed {

/// Any thread may use it.
class EndedGroups {
 public:
  void keep(std::shared_ptr<void> connections) {
    const std::lock_guard lock(mutex_);
    kept_.push_back(std::move(connections));
  }
  void let_go() {
    std::vector<std::shared_ptr<void>> all;
    const std::lock_guard lock(mutex_);
    all.swap(kept_);
  }

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<void>> kept_;
};

}  // namespace tandem::distributed
