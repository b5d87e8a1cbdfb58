// Deals collectives out, and spreads failures.
#include "tandem/distributed/groups/round_robin_group.h"

#include <fmt/format.h>

#include <exception>
#include <mutex>
#include <utility>

#include "tandem/core/error.h"
#include "tandem/distributed/groups/lane.h"

namespace tandem::distributed {

namespace {

using Kind = Collective::Kind;

class RoundRobinGroup final : public ProcessGroup {
 public:
  RoundRobinGroup(const std::string& name, std::vector<std::shared_ptr<ProcessGroup>> groups)
      : ProcessGroup(name, groups.front()->rank(), groups.front()->size()), groups_(std::move(groups)) {
    latest_.resize(groups_.size());
    for (std::size_t i = 0; size() > 1 && i < groups_.size(); ++i)
      lookouts_.push_back(std::make_unique<Lane<WorkPtr>>([this, i](const WorkPtr& work) { await(i, *work); }));
  }

  ~RoundRobinGroup() override {
    bool is_busy = false;
    for (const WorkPtr& work : latest_) is_busy = is_busy || (work && !work->is_done());
    if (is_busy) abort("the group was destroyed on this rank");
  }

  std::shared_ptr<ProcessGroup> duplicate(const std::string& name) override {
    std::vector<std::shared_ptr<ProcessGroup>> others;
    for (std::size_t i = 0; i < groups_.size(); ++i)
      others.push_back(groups_[i]->duplicate(round_robin_name(name, i, groups_.size())));
    return make_round_robin_group(name, std::move(others));
  }

  void abort(const std::string& cause) override {
    for (const auto& group : groups_) group->abort(cause);
  }

  WorkPtr submit(Collective collective) override {
    const bool is_between_two = collective.kind == Kind::send || collective.kind == Kind::recv;
    const std::lock_guard lock(mutex_);
    const std::size_t which = is_between_two ? 0 : turn_;
    if (!is_between_two) turn_ = (turn_ + 1) % groups_.size();
    latest_[which] = groups_[which]->submit(std::move(collective));
    if (!lookouts_.empty()) lookouts_[which]->push(latest_[which]);
    return latest_[which];
  }

 private:
  void await(std::size_t which, Work& work) {
    try {
      work.wait();
    } catch (const std::exception& error) {
      for (std::size_t i = 0; i < groups_.size(); ++i)
        if (i != which) groups_[i]->abort(error.what());
    }
  }

  std::vector<std::shared_ptr<ProcessGroup>> groups_;
  std::mutex mutex_;
  std::size_t turn_ = 0;
  std::vector<WorkPtr> latest_;                           // of each group
  std::vector<std::unique_ptr<Lane<WorkPtr>>> lookouts_;  // one a group, whose collectives end in order
};

}  // namespace

std::shared_ptr<ProcessGroup> make_round_robin_group(const std::string& name,
                                                     std::vector<std::shared_ptr<ProcessGroup>> groups) {
  if (groups.empty()) core::fail("group {}: needs at least 1 group to take turns, got 0", name);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (!groups[i]) core::fail("group {}: group {} of {} is null", name, i + 1, groups.size());
    if (groups[i]->rank() != groups[0]->rank() || groups[i]->size() != groups[0]->size())
      core::fail("group {}: groups must be of the same ranks: {} is rank {} of {}, {} is rank {} of {}", name,
                 groups[0]->name(), groups[0]->rank(), groups[0]->size(), groups[i]->name(), groups[i]->rank(),
                 groups[i]->size());
  }
  return std::make_shared<RoundRobinGroup>(name, std::move(groups));
}

std::string round_robin_name(const std::string& name, std::size_t index, std::size_t count) {
  return fmt::format("{} (group {} of {})", name, index + 1, count);
}

}  // namespace tandem::distributed
